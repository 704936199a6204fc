"""Tools that say more than a name and a schema: texts, kinds, flags, examples, options."""

from __future__ import annotations

from fake_vendors.rules.raw_tools import INTEGER, LONG, TEXT, closed
from pegboard import Grammar, Tool, ToolAnnotations

QUERY = closed(query=TEXT)
LARK = 'start: WORD "," WORD\nWORD: /[a-z]+/\n%ignore " "'
RESULT = closed(total=INTEGER, names={"type": "array", "items": TEXT})
RECURSIVE_RESULT = {
    "type": "object",
    "properties": {"name": TEXT, "parts": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"],
}

_NAMES = (
    Tool.from_schema("a", QUERY, description="Has a name of one letter."),
    Tool.from_schema("_", QUERY, description="Has a name without a letter."),
    Tool.from_schema("n" * 64, QUERY, description="Has a name as long as they may be."),
    Tool.from_schema("get", QUERY, description="Has a name that mappings have."),
    Tool.from_schema("constructor", QUERY, description="Has a name that JavaScript's objects have."),
    Tool.from_schema("__proto__", QUERY, description="Has another one."),
    Tool.from_schema("__class__", QUERY, description="Has a name that Python's objects have."),
    Tool.from_schema("with-dashes-2", QUERY, description="Has a name with dashes."),
    Tool.from_schema("input", QUERY, description="Has the name of an argument."),
    Tool.from_schema("mapped_0123456789", QUERY, description="Ends like a name that was mapped."),
)

_TEXTS = (
    Tool.from_schema("said_nothing", QUERY),
    Tool.from_schema("said_empty", QUERY, description=""),
    Tool.from_schema("said_blank", QUERY, description=" \n "),
    Tool.from_schema("said_much", QUERY, description=LONG),
    Tool.from_schema("said_1024", QUERY, description="x" * 1_024),
    Tool.from_schema("said_1025", QUERY, description="x" * 1_025),
    Tool.from_schema("said_much_abroad", QUERY, description="雨が降っています。" * 200),
    Tool.from_schema("said_abroad", QUERY, description="Größe, цена, 値段, 👩‍👩‍👧 and \u202eleft\u202c"),
    Tool.from_schema("said_in_lines", QUERY, description='One\ttwo\r\nthree "four" \\five\\ </tool>\x00'),
    Tool.from_schema("said_broken", QUERY, description="half \ud83d of a pair", title="\udc00"),
    Tool.from_schema("titled", QUERY, title="A title", description="Has one."),
)

_HINTS = (
    Tool.from_schema("hinted", QUERY, read_only=True, idempotent=True, open_world=False, description="Reads."),
    Tool.from_schema("hinted_fully", QUERY, annotations=ToolAnnotations(*[True] * 5), description="Says all."),
    Tool.from_schema("hinted_against", QUERY, annotations=ToolAnnotations(*[False] * 5), description="Denies all."),
)

_RESULTS = (
    Tool.from_schema("gives_object", QUERY, output_schema=RESULT, description="Gives an object."),
    Tool.from_schema("gives_tree", QUERY, output_schema=RECURSIVE_RESULT, description="Gives a tree."),
)

_EXAMPLES = (
    Tool.from_schema("one_example", QUERY, examples=[{"query": "x"}], description="Has an example."),
    Tool.from_schema("three_examples", QUERY, examples=[{"query": each} for each in "xyz"], description="Has three."),
    Tool.from_schema("example_abroad", QUERY, examples=[{"query": "寿司 🍣"}]),
    Tool.from_schema(
        "example_without_options",
        closed((), a=TEXT, b=INTEGER),
        examples=[{}, {"a": "x"}],
        strict=True,
        description="Has examples that leave things out.",
    ),
    Tool.from_schema(
        "example_with_odd_name", closed(**{"first name": TEXT}), examples=[{"first name": "Ada"}], description="Odd."
    ),
)

_FLAGS = (
    Tool.from_schema("strict_true", QUERY, strict=True, description="Is strict."),
    Tool.from_schema("strict_false", QUERY, strict=False, description="Isn't strict."),
    Tool.from_schema("strict_open", {"type": "object", "properties": {"a": TEXT}}, strict=True, description="Is open."),
    Tool.from_schema(
        "strict_bounds",
        closed(a={"type": "integer", "minimum": 1, "maximum": 5}),
        strict=True,
        description="Has bounds.",
    ),
    Tool.from_schema("slow", QUERY, long_running=True, description="Answers later."),
    Tool.from_schema("slow_and_silent", QUERY, long_running=True),
    Tool.from_schema("deferred", QUERY, deferred=True, description="Is found by a search."),
    Tool.from_schema("deferred_strictly", QUERY, deferred=True, strict=True, description="Is found, and strict."),
    Tool.from_schema("confirmed", QUERY, requires_confirmation=True, permission="mail.send", description="Asks."),
    Tool.from_schema(
        "tagged", QUERY, tags=["b", "a"], version="1", meta={"example.com/x": [1]}, description="Says more."
    ),
)

_OPTIONS = (
    Tool.from_schema(
        "with_options",
        QUERY,
        provider_options={
            "openai": {},
            "anthropic": {"cache_control": {"type": "ephemeral"}, "eager_input_streaming": True},
            "other": {"anything": True},
        },
        description="Has options of one provider.",
    ),
    Tool.from_schema(
        "with_callers",
        QUERY,
        provider_options={
            "anthropic": {"allowed_callers": ["direct"]},
            "openai-responses": {"allowed_callers": ["direct"]},
        },
        description="Has callers.",
    ),
)

_FREEFORM = (
    Tool.freeform("free", description="Takes any text."),
    Tool.freeform("free_and_silent"),
    Tool.freeform("free_by_lark", grammar=Grammar("lark", LARK), description="Takes two words."),
    Tool.freeform("free_by_regex", grammar=Grammar("regex", "^[a-z]+ = [0-9]+$"), description="Takes an assignment."),
    Tool.freeform("free_abroad", grammar=Grammar("lark", 'start: "größer"'), description="Nimmt ein Wort."),
    Tool.freeform("free_strictly", strict=True, description="Is strict, which says nothing of text."),
    Tool.freeform("free_with_example", examples=[{"input": "one two"}], description="Has an example."),
    Tool.freeform("free_deferred", deferred=True, description="Is found by a search."),
)

_PROVIDER = (
    Tool.provider("web_search", "openai.web_search"),
    Tool.provider(
        "web_search_near",
        "openai.web_search",
        {"search_context_size": "low", "user_location": {"type": "approximate", "country": "DE"}},
    ),
    Tool.provider("file_search", "openai.file_search", {"vector_store_ids": ["vs_1"], "max_num_results": 3}),
    Tool.provider("code_interpreter", "openai.code_interpreter", {"container": {"type": "auto"}}),
    Tool.provider("image_generation", "openai.image_generation", {"size": "1024x1024"}),
    Tool.provider("local_shell", "openai.local_shell"),
    Tool.provider("apply_patch", "openai.apply_patch"),
    Tool.provider(
        "remote_tools",
        "openai.mcp",
        {"server_label": "docs", "server_url": "https://example.com/mcp", "require_approval": "never"},
    ),
    Tool.provider("search_the_web", "anthropic.web_search_20250305", {"max_uses": 3}),
    Tool.provider("fetch_page", "anthropic.web_fetch_20250910"),
    Tool.provider("run_code", "anthropic.code_execution_20250825"),
    Tool.provider("shell", "anthropic.bash_20250124"),
    Tool.provider("text_editor", "anthropic.text_editor_20250728", {"max_characters": 10_000}),
    Tool.provider("remember", "anthropic.memory_20250818"),
    Tool.provider("google_search", "google.google_search"),
    Tool.provider("read_urls", "google.url_context"),
    Tool.provider("execute_code", "google.code_execution"),
    Tool.provider("nova_grounding", "bedrock.nova_grounding"),
    Tool.provider("unheard_of", "somebody.something", {"a": 1}),
)

TOOLS: tuple[Tool, ...] = (
    *_NAMES,
    *_TEXTS,
    *_HINTS,
    *_RESULTS,
    *_EXAMPLES,
    *_FLAGS,
    *_OPTIONS,
    *_FREEFORM,
    *_PROVIDER,
)
