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
