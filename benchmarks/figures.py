"""The figures that pegboard is held to: where each is found in the results, its goal, and what holds it back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

OURS = "pegboard"
FLOOR = "floor"
Results = Mapping[str, Any]


@frozen
class Reading:
    """One figure as it was measured.

    Attributes:
        floor: What bare Python takes, in words.
        peer: The best peer, in words.
        ours: In words.
        value: What the goal speaks of: a ratio, or a number.
    """

    floor: str
    peer: str
    ours: str
    value: float


@frozen
class Figure:
    """What is measured, and what it has to be.

    Attributes:
        what: In a few words.
        read: Finds it; `None` where it wasn't measured.
        goal: In words.
        limit: The most that it may be; `None` for a figure without a goal.
        next: A harder goal, set when the first was met.
        held: What holds it back.
    """

    what: str
    read: Callable[[Results], Reading | None]
    goal: str = ""
    limit: float | None = None
    next: float | None = field(default=None, kw_only=True)
    held: str = field(default="", kw_only=True)


def found(results: Results, path: Sequence[str]) -> Any:
    """What stands at a path, or `None`."""
    value: Any = results
    for part in path:
        value = value.get(part) if hasattr(value, "get") else None
    return value


def number(value: float) -> str:
    """Three digits, and no more than that."""
    return f"{value:,.0f}" if abs(value) >= 99.5 else f"{value:.3g}"


def peers_of(results: Results, group: str, path: Sequence[str], leave_out: Sequence[str] = ()) -> dict[str, Any]:
    """What each peer has at a path below its name, best first."""
    here = {
        name: value
        for name, of_peer in results.get(group, {}).items()
        if name not in (OURS, FLOOR, *leave_out) and (value := found(of_peer, path)) is not None
    }
    return dict(sorted(here.items(), key=lambda item: item[1]))


@frozen
class Number:
    """Where a number stands in the results, below a name.

    Attributes:
        group: The group.
        path: To the numbers that were measured together.
        ratio: The one by which two names are compared, in units of bare Python but for exports.
        shown: The one that is shown, and its unit.
    """

    group: str
    path: tuple[str, ...]
    ratio: str
    shown: tuple[str, str]

    def of(self, results: Results, name: str) -> float | None:
        """The ratio of a name."""
        return found(results, [self.group, name, *self.path, self.ratio])

    def words(self, results: Results, name: str | None) -> str:
        """What is shown of a name."""
        value = found(results, [self.group, name or "", *self.path, self.shown[0]])
        if value is None:
            return ""
        whose = f"{name} " if name not in (OURS, FLOOR) else ""
        return f"{whose}{number(value)} {self.shown[1]}"


def against_peer(
    ours: Number, theirs: Number | None = None, *, peer: str | None = None, leave_out: Sequence[str] = ()
) -> Callable[[Results], Reading | None]:
    """Ours over a peer's, both in units of bare Python measured beside them.

    Args:
        ours: Our number.
        theirs: The peer's; the same by default.
        peer: The one that the goal names; the best by default.
        leave_out: Peers that don't do the same.
    """
    same = ours if theirs is None else theirs

    def read(results: Results) -> Reading | None:
        value = ours.of(results, OURS)
        if value is None:
            return None
        ranked = peers_of(results, same.group, [*same.path, same.ratio], leave_out)
        best = next(iter(ranked), None)
        named = ranked.get(peer or best or "", float("nan"))
        return Reading(ours.words(results, FLOOR), same.words(results, best), ours.words(results, OURS), value / named)

    return read


def against_floor(group: str, path: Sequence[str]) -> Callable[[Results], Reading | None]:
    """Ours over bare Python that was measured beside it, in microseconds."""

    def read(results: Results) -> Reading | None:
        ours = found(results, [group, OURS, *path])
        if ours is None:
            return None
        ranked = peers_of(results, group, [*path, "x_floor"])
        best = next(iter(ranked), None)
        return Reading(
            f"{number(ours['floor_us'])} us",
            "" if best is None else f"{best} {ranked[best]:.2f} x",
            f"{number(ours['cpu_us'])} us",
            ours["x_floor"],
        )

    return read


def command(label: str, peer: str = "") -> Callable[[Results], Reading | None]:
    """A command, in bare starts."""

    def read(results: Results) -> Reading | None:
        ours = found(results, ["command", label])
        if ours is None:
            return None
        theirs = found(results, ["command", peer, "x_bare"])
        return Reading(
            f"{number(ours['bare_ms'])} ms",
            "" if theirs is None else f"{peer} {number(theirs)} x",
            f"{number(ours['cpu_ms'])} ms",
            ours["x_bare"],
        )

    return read


def keyed_growth(results: Results) -> Reading | None:
    """One call of a large batch over one of a batch of a tenth, both beside bare Python."""
    ours = found(results, ["keyed", OURS])
    if ours is None:
        return None
    few = ours["few_x_floor"]
    return Reading("", "", f"{number(ours['cpu_us'])} us after {number(ours['few_cpu_us'])}", ours["x_floor"] / few)


def over(group: str, path: Sequence[str], base: Sequence[str]) -> Callable[[Results], Reading | None]:
    """Ours over another of ours, both in units of bare Python measured beside them; `base` begins with its group."""

    def read(results: Results) -> Reading | None:
        ours, whole = found(results, [group, OURS, *path]), found(results, [base[0], OURS, *base[1:]])
        if ours is None or whole is None:
            return None
        words = f"{number(ours['cpu_us'])} us, beside {number(whole['cpu_us'])}"
        return Reading(f"{number(ours['floor_us'])} us", "", words, ours["x_floor"] / whole["x_floor"])

    return read


def loaded_modules(program: str) -> Callable[[Results], Reading | None]:
    """How many modules a program loads over bare Python."""

    def read(results: Results) -> Reading | None:
        count = found(results, ["modules", program, "modules"])
        return None if count is None else Reading("", "", f"{count} modules", count)

    return read


def in_files(what: str) -> Callable[[Results], Reading | None]:
    """A file tool over ripgrep, both by their processor time."""

    def read(results: Results) -> Reading | None:
        ours = found(results, ["files", what])
        if ours is None:
            return None
        theirs = f"ripgrep {number(ours['theirs_cpu_ms'])} ms"
        return Reading("", theirs, f"{number(ours['cpu_ms'])} ms", ours["cpu_ms"] / ours["theirs_cpu_ms"])

    return read


def lasting(key: str, unit: str, of_unit: float = 1) -> Callable[[Results], Reading | None]:
    """How a process grows over many calls."""

    def read(results: Results) -> Reading | None:
        ours, floor = (found(results, ["lasting", name, key]) for name in (OURS, FLOOR))
        if ours is None:
            return None
        words = "" if floor is None else f"{number(floor)} {unit}"
        return Reading(words, "", f"{number(ours)} {unit}", ours / of_unit)

    return read


def exported(form: str, key: str) -> Callable[[Results], Reading | None]:
    """One of all tools as a provider's list has it, over an entry made by hand of a ready schema."""

    def read(results: Results) -> Reading | None:
        ours = found(results, ["export", OURS, form, "many"])
        if ours is None:
            return None
        ranked = peers_of(results, "export", [form, "many", f"{key}_x_floor"])
        best = next(iter(ranked), None)
        return Reading(
            f"{number(ours['floor_us'])} us",
            "" if best is None else f"{best} {ranked[best]:.2f} x",
            f"{number(ours[f'{key}_us'])} us",
            ours[f"{key}_x_floor"],
        )

    return read


def first_export(form: str, theirs: str = "") -> Callable[[Results], Reading | None]:
    """The first export over toolregistry's first, in the same format or another: openai-agents rewrites nothing.

    By the times themselves: an entry made by hand takes up to three times as long in the process of a peer.
    """
    ours, other = (Number("export", (each, "many"), "first_us", ("first_us", "us")) for each in (form, theirs or form))
    return against_peer(ours, other, peer="toolregistry", leave_out=("openai_agents",))


def export_memory(results: Results) -> Reading | None:
    """KiB that the dearest format keeps for each tool."""
    ours = found(results, ["export", OURS])
    if ours is None:
        return None
    dearest = max(ours, key=lambda form: ours[form]["kept_kib"])
    kept = ours[dearest]["kept_kib"]
    return Reading("", "", f"{number(kept)} KiB ({dearest})", kept)


def far(results: Results) -> Reading | None:
    """A call into a child process and back, over the bare way there, by wall time."""
    ours = found(results, ["process", OURS])
    if ours is None:
        return None
    ranked = peers_of(results, "process", ["x_floor"])
    best = next(iter(ranked), None)
    peer = "" if best is None else f"{best} {ranked[best]:.2f} x"
    return Reading(f"{number(ours['floor_us'])} us", peer, f"{number(ours['wall_us'])} us", ours["x_floor"])


def served(part: str, key: str, unit: str) -> Callable[[Results], Reading | None]:
    """Ours over the official SDK's bare server, beside it."""

    def read(results: Results) -> Reading | None:
        ours, bare, fast = (found(results, ["served", name, part, key]) for name in (OURS, "sdk", "fastmcp"))
        if ours is None or not bare:
            return None
        peer = "" if fast is None else f"fastmcp {number(fast)} {unit}"
        return Reading(f"the SDK's {number(bare)} {unit}", peer, f"{number(ours)} {unit}", ours / bare)

    return read


def memory(part: str) -> Callable[[Results], Reading | None]:
    """KiB a tool."""
    group, key = ("traced", "defined_kib") if part == "before" else ("resident", "called_kib")

    def read(results: Results) -> Reading | None:
        ours = found(results, [group, OURS, key])
        if ours is None:
            return None
        ranked = peers_of(results, group, [key])
        best = next(iter(ranked), None)
        floor = found(results, [group, FLOOR, key])
        return Reading(
            "" if floor is None else f"{number(floor)} KiB",
            "" if best is None else f"{best} {number(ranked[best])} KiB",
            f"{number(ours)} KiB",
            ours,
        )

    return read


def first_over_again(results: Results) -> Reading | None:
    """The first listing over the second."""
    ours = found(results, ["half", OURS])
    if ours is None:
        return None
    return Reading("", "", f"{number(ours['first_ms'])} ms", ours["first_x_floor"] / ours["again_x_floor"])


def refused(results: Results) -> Reading | None:
    """How many of the bad inputs are refused."""
    counts = {
        name: sum(each["verdict"] == "refused" for each in verdicts.values())
        for name, verdicts in results.get("refuse", {}).items()
    }
    if OURS not in counts:
        return None
    ours, of = counts.pop(OURS), len(results["refuse"][OURS])
    floor = counts.pop(FLOOR, None)
    best = max(counts, key=lambda name: counts[name], default=None)
    return Reading(
        "" if floor is None else f"{floor} of {of}",
        "" if best is None else f"{best} {counts[best]} of {of}",
        f"{ours} of {of}",
        of - ours,
    )


def dearest_refusal(results: Results) -> Reading | None:
    """The refusal that costs most, in bare calls."""
    dearest = {
        name: max((each for each in verdicts.values() if "x_floor" in each), key=lambda each: each["x_floor"])
        for name, verdicts in results.get("refuse", {}).items()
        if any("x_floor" in each for each in verdicts.values())
    }
    if OURS not in dearest:
        return None
    ours = dearest.pop(OURS)
    best = min(dearest, key=lambda name: dearest[name]["x_floor"], default=None)
    peer = "" if best is None else f"{best} {dearest[best]['x_floor']:.2f} x"
    return Reading(f"{number(ours['floor_us'])} us", peer, f"{number(ours['cpu_us'])} us", ours["x_floor"])


IMPORT = Number("start", ("import",), "over_bare", ("over_ms", "ms"))
FIRST_CALL = Number("start", ("first call",), "over_bare", ("over_ms", "ms"))
ALONE = Number("start", ("alone",), "over_bare", ("over_ms", "ms"))
DEFINE = Number("define", (), "x_floor", ("cpu_us", "us"))
AGAIN = Number("half", (), "again_x_floor", ("again_ms", "ms"))
ASYNC = Number("call", ("async",), "x_floor", ("cpu_us", "us"))
PLAIN = Number("call", ("plain",), "x_floor", ("cpu_us", "us"))
INLINE = Number("call", ("inline",), "x_floor", ("cpu_us", "us"))
CHECK = Number("check", (), "x_floor", ("cpu_us", "us"))
BLOCKING = ("llm",)
"""Peers that run plain functions on the event loop, which then does nothing else."""

KEPT_TEXT = "bare Python that prints this text takes 2.2 x; the rest is a checksum of it and a `stat` of 1,000 files"

CALL_PARTS = (
    "by leaving parts out (the table below): structuring and the function, the result as data and text, strict parsing"
)

MANY_PARTS = "the parts of the async call, and its time limit and watchdog (counted in the table below)"
TEXT_RULE = "finding the policy of the tool, and matching the text by the rule (counted in the table below)"
PATH_RULE = (
    "each path is resolved at each call, as a link may have changed: that is four tenths of what the rule adds, "
    "matching the pattern a quarter (counted in the table below); by time the kernel's work for six `readlink`s comes "
    "on top"
)
GREP_PARTS = "a file without a match: opening, reading and closing it takes 4 us of 12, RE2 2, the walk 2"

REWRITTEN = (
    "each schema is converted for its provider, with a report of what is lost; for Gemini (the table below), the steps "
    "that look at a schema and change nothing are half of it, those that change something a quarter"
)
LADEN_PARTS = (
    "two rules, one of which matches an argument; an async callback before and one after, each with its time "
    "limit; three events, sent to an async observer"
)

SERVED_CALL = (
    "of what is added to the SDK's server, by instructions (the table below): the call itself is seven tenths (five of "
    "them a batch with its task, events and options), the events to resend a quarter, the checks a sixth"
)
SERVED_LIST = "seven tenths are the SDK's, which validates and writes a longer list; building the entries is a seventh"
SERVED_START = "the command, the configuration, the installed plugins and the registry, on top of the SDK's own imports"

FIGURES = (
    Figure(
        "`import pegboard` alone",
        against_peer(ALONE, IMPORT, peer="toolregistry"),
        "0.1 of toolregistry's import",
        0.1,
        next=0.01,
    ),
    Figure(
        "`from pegboard import ToolRegistry, tool`",
        against_peer(IMPORT, peer="toolregistry"),
        "0.7 of toolregistry",
        0.7,
        next=0.4,
        held="importing attrs is half of it, creating our own 63 attrs classes a quarter",
    ),
    Figure(
        "a program that imports, defines one tool and calls it",
        against_peer(FIRST_CALL, peer="toolregistry"),
        "1.1 of toolregistry",
        1.1,
        held="by instructions (the table below): asyncio, json and attrs are 46 %, pegboard's own 40 modules 41 %, "
        "more than half of which is for 88 attrs classes, jsonschema_rs with email 7 %, defining and calling 6 %",
    ),
    Figure(
        "modules that this program loads, over bare Python",
        loaded_modules("import, define, call once"),
        "200",
        200,
        held="131 are those of asyncio, json and attrs, 26 those of jsonschema_rs (20 of them email and what email "
        "imports), 40 pegboard's; cattrs isn't among them",
    ),
    Figure(
        "`registry --help`",
        command("registry --help", "llm --help"),
        "5 x bare Python",
        5,
        held="importing click alone takes 4.8 x",
    ),
    Figure(
        "`list --json`, 5 plugins, warm",
        command("list --json, 5 plugins, warm", "llm tools list --json"),
        "2 x bare Python",
        2,
        next=1.3,
    ),
    Figure("`list`, 5 plugins, warm", command("list, 5 plugins, warm"), "2 x bare Python", 2, next=1.3),
    Figure(
        "`list --json`, 5 plugins, manifests, no cache",
        command("list --json, 5 plugins, manifests"),
        "8 x bare Python",
        8,
        held="by instructions (the table below): the libraries are 42 %, pegboard's own 51 modules 42 %, almost half "
        "of which is for 75 attrs classes, the listing itself 16 %",
    ),
    Figure(
        "`list --json`, 5 plugins without manifests, first load",
        command("list --json, 5 plugins, first load"),
        held="a child process imports the plugins and the modules that define tools",
    ),
    Figure(
        "`list --json`, 5 plugins without manifests, warm",
        command("list --json, 5 plugins, no manifests, warm"),
        "2 x bare Python",
        2,
        next=1.3,
    ),
    Figure(
        "`list --json`, 500 plugins and 10,000 tools, warm",
        command("list --json, 500 plugins, warm"),
        "3 x bare Python",
        3,
        held=KEPT_TEXT,
    ),
    Figure(
        "`list`, 500 plugins and 10,000 tools, warm", command("list, 500 plugins, warm"), "4 x bare Python", 4, next=2
    ),
    Figure(
        "`list --json`, 500 plugins, manifests, no cache",
        command("list --json, 500 plugins, manifests"),
        held="writing what `show` prints of each of 10,000 tools into the cache is half of it; reading 500 "
        "manifests an eighth, each tool's JSON a tenth, digests a 14th",
    ),
    Figure("`list --json`, 500 plugins without manifests, first load", command("list --json, 500 plugins, first load")),
    Figure(
        "`list --json`, 500 plugins without manifests, warm",
        command("list --json, 500 plugins, no manifests, warm"),
        "3 x bare Python",
        3,
        held=KEPT_TEXT,
    ),
    Figure(
        "1,000 tools from functions, each",
        against_peer(DEFINE, peer="toolregistry"),
        "0.45 of toolregistry",
        0.45,
        next=0.25,
        held="by leaving parts out (the table below): reading the signature and the type that is new in each tool is "
        "half of it, the docstring and writing the schemas the rest",
    ),
    Figure(
        "memory of a tool before its first call",
        memory("before"),
        "6 KiB",
        6,
        next=3,
        held="the texts themselves are 1.1 KiB",
    ),
    Figure(
        "memory of a tool after its first call",
        memory("after"),
        "19 KiB",
        19,
        next=10,
        held="the compiled validator of jsonschema_rs, 10.5 KiB for this schema without its descriptions; tools "
        "with equivalent schemas share one",
    ),
    Figure(
        "half of 10,000 tools by a predicate, as JSON, again",
        against_peer(AGAIN),
        "0.1 of the best peer",
        0.1,
        held="writing the JSON of each tool anew, of its parts kept as JSON, is nine tenths (0.2 kept all texts and "
        "took 0.28 of llm), matching five patterns against 10,000 names the rest",
    ),
    Figure(
        "the same, the first time",
        first_over_again,
        "3 x the second time",
        3,
        held="the digest of each tool, 50 us, most of it canonical JSON; its text, 20 us",
    ),
    Figure(
        "one async call, JSON text to JSON text",
        against_peer(ASYNC, peer="strands"),
        "strands'",
        1.0,
        held=CALL_PARTS,
    ),
    Figure(
        "the same, over bare Python",
        against_floor("call", ["async"]),
        "2.3 x bare Python",
        2.3,
        held=CALL_PARTS,
    ),
    Figure(
        "one trivial async call: the sum of two integers",
        against_floor("call", ["trivial"]),
        "3 x bare Python",
        3,
        held="as the async call; what doesn't grow with the arguments weighs more here",
    ),
    Figure(
        "one call of a plain function, off the loop",
        against_peer(PLAIN, peer="strands", leave_out=BLOCKING),
        "1.05 of strands",
        1.05,
        held="waking a thread and the event loop again: 0.6 to 0.7 of `asyncio.to_thread` for a bare queue without "
        "any checks, where strands takes 1.2",
    ),
    Figure(
        "one call of a plain function with `blocking=False`",
        against_peer(INLINE, PLAIN, peer="strands", leave_out=BLOCKING),
        "0.15 of strands",
        0.15,
        held="as the async call",
    ),
    Figure(
        "1,000 async calls at once, each",
        against_floor("flood", []),
        "2 x bare Python",
        2,
        held=MANY_PARTS,
    ),
    Figure(
        "1,000 async calls as one batch, each",
        against_floor("dispatch", []),
        "2.3 x bare Python",
        2.3,
        held="as 1,000 async calls at once; a batch takes 1.08 times their instructions (the table below)",
    ),
    Figure(
        "the same, over 1,000 async calls at once",
        over("dispatch", [], ["flood"]),
        "1.2 x those at once",
        1.2,
        held="a position in the batch, a look at its lock, and a coroutine round each call (the table below)",
    ),
    Figure(
        "10,000 calls as one batch with 64 keys, each",
        against_floor("keyed", []),
        held="the floor has a lock for each key; here calls wait in order, after exclusive ones, from any thread",
    ),
    Figure("the same, over one of 1,000", keyed_growth, "1.5 x: no dearer in a large batch", 1.5),
    Figure(
        "one async call that waits, without rules or callbacks",
        against_floor("laden", ["nothing"]),
        "3 x bare Python",
        3,
        held="as the async call, and its time limit",
    ),
    Figure(
        "one ruled by a text that its tool declares, over one without rules",
        over("laden", ["declared"], ["laden", "nothing"]),
        "1.3 x the same call without rules",
        1.3,
        held=TEXT_RULE,
    ),
    Figure(
        "one ruled by a path that its tool declares, over one without rules",
        over("laden", ["path"], ["laden", "nothing"]),
        "1.3 x the same call without rules",
        1.3,
        held=PATH_RULE,
    ),
    Figure("a call with rules, callbacks and events", against_floor("laden", ["everything"]), held=LADEN_PARTS),
    Figure(
        "arguments checked and typed",
        against_peer(CHECK),
        held="pydantic-core does both in Rust; here the validator is Rust, and structuring into attrs classes is "
        "Python",
    ),
    Figure(
        "a call into a child process and back, wall time",
        far,
        held="the floor is a `ProcessPoolExecutor` that checks nothing and can't end a tool",
    ),
    Figure(
        "growth of the process from the 100,000th call to the 1,000,000th",
        lasting("grown_kib", "KiB", 1024),
        "1 MiB: flat",
        1,
    ),
    Figure("memory that Python retains per call, then", lasting("kept_bytes", "bytes"), "1 byte: nothing", 1),
    *(
        Figure(f"10,000 tools in {form}'s words, again, each", exported(form, "again"), "4 x an entry made by hand", 4)
        for form in ("openai", "anthropic", "gemini")
    ),
    *(
        Figure(f"10,000 tools in {form}'s words, the first time, each", first_export(form), goal, limit, held=REWRITTEN)
        for form, goal, limit in (
            ("openai", "2.5 x toolregistry's first", 2.5),
            ("anthropic", "", None),
            ("gemini", "3.5 x toolregistry's first", 3.5),
        )
    ),
    Figure(
        "10,000 tools in gemini-schema's words, the first time, each",
        first_export("gemini-schema", "gemini"),
        "3.5 x toolregistry's first in gemini's words",
        3.5,
        held=REWRITTEN + "; toolregistry has no such format: these words know no `$ref`, `const` or "
        "`additionalProperties`, so that more is rewritten and reported",
    ),
    Figure("what one format keeps of a tool", export_memory),
    Figure("a request with 100 tools and 10 calls made ready", against_floor("processed", [])),
    Figure("10,000 tools indexed for a search", against_floor("searched", ["index"])),
    Figure("10,000 tools searched by words", against_floor("searched", ["query"])),
    *(
        Figure(f"`registry serve`: {what}", served(part, *measured), "1.35 x the SDK's server", 1.35, held=held)
        for what, part, measured, held in (
            ("one call over standard input and output", "stdio", ("cpu_us", "us"), ""),
            ("one call over HTTP", "http", ("cpu_us", "us"), SERVED_CALL),
            ("one call of 100 clients at once, over HTTP", "crowd", ("cpu_us", "us"), SERVED_CALL),
            ("a list of 1,000 tools", "list", ("cpu_us", "us"), SERVED_LIST),
            ("from its start to the first list", "start", ("cpu_ms", "ms"), SERVED_START),
            ("memory of a session", "session", ("kib", "KiB"), ""),
        )
    ),
    *(
        Figure(
            f"{what}, processor time",
            in_files(what),
            goal,
            limit,
            held=held,
        )
        for what, goal, limit, held in (
            ("grep a word in 100,000 files", "2.5 x ripgrep's", 2.5, GREP_PARTS),
            ("grep an expression in 100,000 files", "2.5 x ripgrep's", 2.5, GREP_PARTS),
            ("glob a few of 100,000 files", "7.6 x ripgrep's: 0.7 of what it took in 0.2", 7.6, "the walk"),
        )
    ),
    Figure("bad inputs that are refused", refused, "6 of 6", 0),
    Figure(
        "the dearest refusal",
        dearest_refusal,
        "8 x a bare call",
        8,
        held="by leaving parts out (the table below): finding the problems with their paths, and wording them, is "
        "three fifths of it, the call and its result the rest",
    ),
)
