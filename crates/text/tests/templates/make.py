"""Writes cases.json: templates rendered by Jinja2 itself, in the environment that Hugging Face documents for chat
templates (trim_blocks, lstrip_blocks, loop controls, a `generation` tag, json.dumps as `tojson`).

    pip install jinja2 && python make.py
"""

import datetime
import json
import os

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1_721_995_200  # 2024-07-26 12:00:00 UTC


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
environment.filters["tojson"] = tojson
environment.globals["raise_exception"] = raise_exception
environment.globals["strftime_now"] = lambda pattern: datetime.datetime.fromtimestamp(
    NOW, datetime.timezone.utc
).strftime(pattern)

CHATML = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "Tools, one a line:" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n<|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=messages|length - 1, found=false) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if not ns.found and message.role == "user" and message.content is string and not(message.content.startswith('<result>') and message.content.endswith('</result>')) %}
        {%- set ns.found = true %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thoughts = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thoughts = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thoughts = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or thoughts) %}
            {{- '<|im_start|>assistant\\n<think>\\n' + thoughts.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
                {%- if call.function %}{%- set call = call.function %}{%- endif %}
                {{- '<call>{"name": "' + call.name + '", "arguments": ' }}
                {%- if call.arguments is string %}{{- call.arguments }}{%- else %}{{- call.arguments | tojson }}{%- endif %}
                {{- '}</call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or messages[loop.index0 - 1].role != "tool" %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<result>\\n' + content + '\\n</result>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != "tool" %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}"""

HEADERS = """{{- bos_token }}
{%- if custom_tools is defined %}{%- set tools = custom_tools %}{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}{%- set date_string = strftime_now("%d %b %Y") %}{%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = "" %}
{%- endif %}
{{- "<|header|>system<|end|>\\n\\nToday: " + date_string + "\\n\\n" }}
{%- if tools is not none and tools %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system }}{{- "<|eot|>" }}
{%- for message in messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Roles must alternate user/assistant, found ' + message['role'] + ' at ' ~ loop.index0) }}
    {%- endif %}
    {{- '<|header|>' + message['role'] + '<|end|>\\n\\n'+ message['content'] | trim + '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|header|>assistant<|end|>\\n\\n' }}{%- endif %}"""

VALUES = """{% for m in messages %}
{% if m.content is string %}{{ m.content }}{% elif m.content is iterable %}{% for p in m.content %}{{ p['type'] }}={{ p.text }};{% endfor %}{% endif %}

{% endfor %}
{{ flag }} {{ nothing }} {{ number }} {{ list }} {{ map }} {{ absent }}|{{ list|string }}|{{ flag|string|length }}
{{ map|tojson(sort_keys=True) }} {{ map|tojson(separators=(',', ':')) }} {{ map|tojson(indent=2, ensure_ascii=true) }}
{{ [1.0, 1e20, 1e-7, 123456789012345680.0, 0.1, -0.0]|tojson }} {{ [] | tojson(indent=1) }}{{ {} | tojson }}
{% for key, value in map.items() %}
    {{ loop.index }}/{{ loop.length }} {{ key }}:{{ value }}{{ "," if not loop.last }}
{% endfor %}
{{ map.get('absent', 'fallback') }} {{ list|join('-') }} {{ 'a,b'.split(',')|last }} {{ "Ab"|lower }}{{ 'x' * 3 }} {{ "  t "|trim }}.
{%- for n in range(9) %}{% if n == 2 %}{% continue %}{% elif n > 4 %}{% break %}{% endif %}{{ n }}{{ loop.previtem }}{% endfor %}

{% macro twice(x, y='d') %}{{ x }}{{ x }}{{ y }}{% endmacro %}{{ twice('q') }}{{ twice(1, y=2) }}
{# a comment #}{% set block %}in {{ 1 + 1 }} {% endset %}{{ block|upper }}{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ messages|map(attribute='role')|join(',') }}
{{ "%s-%d"|format("a", 3) }} {{ 7 // 2 }} {{ 7 % 3 }} {{ 7 / 2 }} {{ 2 ** 5 }} {{ list[1:]|first }} {{ 'é'|tojson(ensure_ascii=True) }} {{ "it's"|tojson }}
{{ dict(a=1).a }} {{ (list + [9])|last }} {{ 'b' in 'abc' and 'z' not in list }} {{ map is mapping }} {{ list is sequence }} {{ nothing is none }} {{ absent is not defined }} {{ flag is true }} {{ number is number }}
"""

OPERATIONS = r"""{{ [7 // -2, -7 // 2, 7 % -3, -7 % 3, 7.5 // 2, -7.5 % 2, 2 ** 10, 2 ** -1, 1 / 2, 3 * 1.5, 1 - 2.5, -number, True + 1] }}
{{ [1 == 1.0, true == 1, 'a' < 'b', [1, 2] < [1, 3], (1, 2) == [1, 2], {'a': 1} == {'a': 1.0}, none == false, absent == absent] }}
{{ 1 < number <= 3 < 4 }} {{ 1 < number > 3 }} {{ not number }} {{ number and list[0] or 'no' }} {{ absent or 'default' }} {{ '' and 1 }}|
{{ 'abcdef'[1:4] }} {{ 'abcdef'[::-2] }} {{ 'héllo'[-2] }} {{ list[-3:-1] }} {{ list[5:1:-2] }} {{ list[::3] }} {{ (1, 2, 3)[1:] }} {{ list[99:] }} {{ list[:-99] }} {{ [1, 2, 3][-1] }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1, 'x'] }} {{ 'ab' * 2 }} {{ 2 * [1] }} {{ 0 * 'x' }}{{ -1 * [1] }} {{ (1,) + (2, 3) }} {{ (1,) }} {{ () }}
{{ 'b' in 'abc' }} {{ 'k' in map.a }} {{ 2.5 in list }} {{ 'x' not in list }} {{ 1 in (1, 2) }}
{{ "%s|%5d|%-5d|%05d|%+d|%.2f|%8.3f|%x|%r|%%" % ('a', 3, 3, -3, 3, 2.5, 2.0625, 255, 'q') }} {{ '%s' % 'one' }} {{ "{}-{}-{name}".format('a', 2, name='n') }} {{ '{1}{0}{1}'.format('a', 'b') }} {{ '{{}}{:>5}{:.1f}|{:<4}|'.format('b', 2.25, 'c') }}"""

FILTERS = r"""{{ ['b', 'A', 'c']|sort }} {{ ['b', 'A', 'c']|sort(case_sensitive=true) }} {{ [3, 1, 2]|sort(reverse=true) }} {{ people|sort(attribute='age')|map(attribute='name')|join(', ') }}
{{ ['a', 'A', 'b', 'a']|unique|list }} {{ [1, 2, 1]|unique|list }} {{ [1, 2, 3, 4, 5]|batch(2)|list }} {{ [1, 2, 3, 4, 5]|batch(2, 0)|list }} {{ [1, 2, 3, 4, 5]|slice(2)|list }}
{% for group in people|groupby('city') %}{{ group.grouper }}:{% for p in group.list %}{{ p.name }}{% endfor %};{% endfor %}

{{ {'b': 1, 'A': 2}|dictsort }} {{ {'b': 1, 'a': 2}|dictsort(by='value') }} {{ {'b': 1, 'a': 2}|dictsort(reverse=true) }} {{ {'a': 1}|items|list }} {{ map|list }} {{ map|length }} {{ map|first }}
{{ people|selectattr('age', 'gt', 20)|map(attribute='name')|list }} {{ people|rejectattr('city', 'equalto', 'Z')|list|length }} {{ [0, 1, '', 'x']|select|list }} {{ [1, 2, 3]|reject('odd')|list }}
{{ [1, 2, 3]|sum }} {{ people|sum(attribute='age') }} {{ [1, 5, 2]|max }} {{ ['b', 'A']|min }} {{ []|max }} {{ []|first }} {{ 'abc'|first }}{{ 'abc'|last }} {{ [1, 2]|reverse|list }} {{ 'abc'|reverse }}
{{ 'hello world it\'s'|title }} {{ 'hELLO'|capitalize }} {{ '  x '|trim }}| {{ 'xxaxx'|trim('x') }} {{ 'a-b'|replace('-', '+') }} {{ 'aaa'|replace('a', 'b', 2) }} {{ 'a
b

c'|indent(2) }} {{ 'a
b'|indent(2, true) }} {{ '<a&"\''|escape }} {{ 'ab'|center(6) }}|
{{ 3.7|int }} {{ '42'|int }} {{ 'x'|int(7) }} {{ '3.5'|float }} {{ 2.5|round }} {{ 2.567|round(2) }} {{ 2.1|round(0, 'ceil') }} {{ -3|abs }} {{ absent|default('d') }} {{ ''|default('d', true) }} {{ ''|d('e') }} {{ none|string }}
{{ ['a', 'b']|map('upper')|join('-') }} {{ people|map(attribute='home.x', default='none')|list }} {{ [[1, 2], [3]]|map('first')|list }} {{ people|join(', ', attribute='name') }} {{ [1, [2, 'x'], none]|join('|') }}"""

CONTROL = r"""{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}

{% for x in 'abcd' %}{{ loop.cycle('-', '+') }}{{ x }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.changed(x in 'bc') }} {% else %}none{% endfor %}{% for x in [] %}{{ x }}{% else %}none{% endfor %}

{% for x in range(10) if x is divisibleby 3 %}{{ loop.index }}/{{ loop.length }}={{ x }} {% endfor %}{% for k, v in {'a': [1, 2]}.items() %}{{ k }}{{ v }}{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}{{ range(5, 0, -2)|list }}

{% macro outer(a, b=2, c='c') %}<{{ a }}{{ b }}{{ c }}{% if caller %}{{ caller('z') }}{% endif %}>{% endmacro %}{{ outer(1) }}{{ outer(1, c=3) }}{% call(z) outer('x') %}[{{ z }}{{ number }}]{% endcall %}{% macro fact(n) %}{{ n if n < 2 else n ~ '*' ~ fact(n - 1) }}{% endmacro %}{{ fact(4) }}

{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}{% with y = 5, z = 6 %}{{ y + z }}{% set x = 0 %}{% endwith %}{{ x }}{{ y }}{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set ns = namespace(n=0, l=[]) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.n }}{{ ns.l }}

{% filter upper %}up {{ number }}{% endfilter %}{% set block | trim | upper %}  in {{ number }} {% endset %}{{ block }}{% raw %}{{ raw }}{% endraw %}{{ 'yes' if number is odd }}{{ 'no' if number is even }}{{ number is not none and number is eq 3 }}{{ [number is number, 'a' is string, 1.5 is float, 1 is integer, true is boolean, [] is iterable, {} is mapping, absent is undefined, 'a' is in 'abc', 1 is sameas 1, 'A' is upper, 'a' is lower, outer is callable] }}"""

METHODS = r"""{{ ' a b '.strip() }}|{{ 'xay'.strip('xy') }}|{{ ' a'.lstrip() }}|{{ 'a '.rstrip() }}|{{ 'a b  c'.split() }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'a,b,c'.rsplit(',', 1) }}|{{ 'a b c'.split(none, 1) }}|{{ ''.split() }}|{{ ''.split(',') }}
{{ 'a
b
'.splitlines() }} {{ 'a
b'.splitlines(true) }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'ab'.partition('x') }} {{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.md'.removesuffix('.md') }}
{{ 'abcabc'.find('c') }} {{ 'abcabc'.rfind('c') }} {{ 'abc'.find('x') }} {{ 'ababa'.count('ab') }} {{ 'aXb'.upper() }} {{ 'aXb'.lower() }} {{ 'hello there'.title() }} {{ 'hELLO'.capitalize() }} {{ 'abc'.replace('b', '') }} {{ 'aaa'.replace('a', 'b', 1) }} {{ 'ab'.replace('', '-') }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ ''.isdigit() }} {{ 'AB'.isupper() }} {{ 'ab'.islower() }} {{ ', '.join(['a', 'b']) }}
{{ map.get('z') }} {{ map.get('no') }} {{ map.get('no', 5) }} {{ map.keys()|list }} {{ {'a': 1}.values()|list }} {{ {'a': 1}.items()|list }} {{ list.count(1) }} {{ list.index('a') }} {{ dict(a=1, **{'b': 2}) }} {{ dict({'a': 1}, b=2) }}"""

GENERATION = """{% for m in messages %}
{% if m.role == 'assistant' %}
{%- generation -%}
{{ m.content }}{{ eos_token }}
{%- endgeneration -%}
{% else %}
[{{ m.role }}] {{ m.content }}
{% endif %}
{% endfor %}
{% generation %}
x
{% endgeneration %}
"""

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather, it's \"good\" <b>&</b> naïve",
        "parameters": {
            "type": "object",
            "required": ["city"],
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 0.5}},
        },
    },
}


def message(role, content, **more):
    return {"role": role, "content": content, **more}


TALK = [message("system", " Be brief. "), message("user", "Hi\n"), message("assistant", "Hello"), message("user", "<b>?")]
CALLS = [
    message("user", "Weather in Zürich?"),
    message(
        "assistant",
        "<think>\nLook it up.\n</think>\n\nLet me see.",
        tool_calls=[
            {"id": "1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 2}}},
            {"id": "2", "type": "function", "function": {"name": "weather", "arguments": {}}},
        ],
    ),
    message("tool", "rain", tool_call_id="1"),
    message("tool", "sun", tool_call_id="2"),
]
VARIABLES = {
    "flag": True,
    "nothing": None,
    "number": 3,
    "list": ["a", 1, False, None, "it's", 'q"', 2.5],
    "map": {"z": 1, "a": {"k": ["é", "\n\t\"\\\u0001"]}, "m": None},
}
PEOPLE = [
    {"name": "Zoe", "age": 30, "city": "B"},
    {"name": "Ann", "age": 20, "city": "A", "home": {"x": 1}},
    {"name": "Bob", "age": 25, "city": "B"},
]
PARTS = [message("user", [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]), message("assistant", "ok")]

CASES = [
    ("chatml", CHATML, {"messages": TALK}),
    ("chatml without a prompt", CHATML, {"messages": TALK, "add_generation_prompt": False}),
    ("chatml with tools", CHATML, {"messages": TALK, "tools": [TOOL, TOOL]}),
    ("chatml with calls", CHATML, {"messages": CALLS, "tools": [TOOL]}),
    ("chatml without thinking", CHATML, {"messages": TALK[:2], "enable_thinking": False}),
    ("chatml that thinks again", CHATML, {"messages": CALLS + [message("assistant", "Rain.", reasoning_content="\nSo.\n")]}),
    ("headers", HEADERS, {"messages": TALK}),
    ("headers with tools", HEADERS, {"messages": TALK[1:], "tools": [TOOL]}),
    ("headers with a date", HEADERS, {"messages": TALK[1:2], "date_string": "today"}),
    ("headers that raise", HEADERS, {"messages": TALK[2:]}),
    ("values", VALUES, {"messages": PARTS, **VARIABLES}),
    ("operations", OPERATIONS, {"messages": TALK, **VARIABLES}),
    ("filters", FILTERS, {"messages": TALK, **VARIABLES, "people": PEOPLE}),
    ("control", CONTROL, {"messages": TALK, **VARIABLES}),
    ("methods", METHODS, {"messages": TALK, **VARIABLES}),
    ("generation", GENERATION, {"messages": TALK}),
]

cases = []
for name, template, request in CASES:
    context = {
        "tools": None,
        "documents": None,
        "add_generation_prompt": True,
        "bos_token": "<|begin|>",
        "eos_token": "<|eot|>",
        **request,
    }
    case = {"name": name, "template": template, "request": request}
    try:
        case["rendered"] = environment.from_string(template).render(**context)
    except jinja2.exceptions.TemplateError as error:
        case["raised"] = str(error)
    cases.append(case)

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases.json"), "w") as file:
    json.dump({"now": NOW, "cases": cases}, file, indent=1, ensure_ascii=False)
    file.write("\n")
