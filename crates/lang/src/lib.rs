//! Source text to typed program: lexer, parser, types and diagnostics of the Fiddlehead language.
