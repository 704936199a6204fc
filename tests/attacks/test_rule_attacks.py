"""Attacks of a model on rules: commands in plan mode, spellings, values, nested calls, limits."""

from __future__ import annotations

import asyncio
import json

import pydantic
import pytest

from pegboard import (
    Always,
    Once,
    Permissions,
    ReadonlyContext,
    Reject,
    Rule,
    ToolCall,
    ToolContext,
    ToolRegistry,
    run_turn,
    tool,
)
from pegboard.testing import ScriptedModel, plugin_registry
from pegboard_agents import Agent, agent_tool, batch
from pegboard_guard import FileApprovals

ANN = ReadonlyContext(user="ann", session="s")
ALLOW = Rule("shell", "*", "allow")


def rows(table):
    """The cells of a table, separated by three blanks or a line end."""
    return [each for line in table.splitlines() for each in line.split("   ") if each]


def registry_of(*tools, rules=(), mode="default", approver=None, **options):
    registry = ToolRegistry(**options)
    registry.register(*tools)
    registry.permissions, registry.approver = Permissions(rules, mode), approver
    return registry


def call(registry, name, arguments, context=ANN, **options):
    outcome = asyncio.run(registry.dispatch([ToolCall(name, arguments, "c1")], context=context, **options))
    return outcome.results[0]


class Tools:
    """Tools that record their calls."""

    def __init__(self):
        self.ran = []

    @tool(destructive=True)
    async def remove(self, path: str) -> str:
        self.ran.append(path)
        return f"removed {path}"

    @tool
    async def plain(self, x: str = "a default") -> str:
        self.ran.append(x)
        return x

    @tool(permission_arguments={"path": "path"})
    async def opened(self, path: list[str] | dict[str, str] | str) -> None:
        self.ran.append(path)

    @tool(permission_arguments={"url": "url"})
    async def fetched(self, url: list[str] | dict[str, str] | str) -> None:
        self.ran.append(url)

    @tool
    async def asked(self, what: str, context: ToolContext) -> None:
        await context.ask("zap", [what])
        self.ran.append(what)

    @tool
    async def outer(self, name: str, arguments: dict, context: ToolContext) -> str:
        return (await context.call(name, arguments)).kind or "ran"

    @tool
    async def counted(
        self, number: float = 0, flag: bool = False, text: str | None = None, items: list[str] | None = None
    ) -> None:
        self.ran.append((number, flag, text))


@pytest.fixture
def tools():
    return Tools()


@pytest.fixture(scope="module")
def shell():
    return plugin_registry("shell", settings={"shell": {"sandbox": "none"}}).get("shell")


# Plan mode denies changes even if a rule allows them

CHANGES = rows(r"""
sort -o f x   sort --outp=f x   sort -uof x   sort --compress-program=touch x   git log --output=f
git grep -Otouch x   git grep -nOtouch x   git grep -cO./evil x   git grep --no-index -hO./evil x
git grep -eO -Otouch x   git grep --open-files-in-pager=touch x   git grep --open=touch x
git -c core.pager=touch log   git -c core.fsmonitor=./evil status   git --exec-path=. log   git --git-dir=evil log
git -C evil log   git -p log   git diff --ext-diff   git cat-file --textconv HEAD:x   git cat-file --textc HEAD:x
git cat-file --filters HEAD:x   git cat-file --filt HEAD:x   git branch new   git branch -v new   git branch -vv new
git branch -D x   git branch -aM new   git branch --list -D x   git branch -vd x   git branch -v -D x
git branch -vf new   git branch -vm new   git branch -vu origin   git branch -v --unset-upstream
git branch -vv --edit-description   git grep x -nO   git grep -A1 -nO. x   git grep -m1O x
git tag t   git remote add a b   git remote -v update
git config user.name x   git stash   git reflog expire --all   git archive -o f HEAD   git fetch   git ls-remote .
git worktree add f   git hash-object -w x   git submodule foreach touch f   GIT_PAGER=touch git log
GIT_DIR=evil git log   PATH=. ls   LD_PRELOAD=./x ls   find . -delete   find . ! -delete   find . -dele''te
find . -"delete"   find . -fprint f   find . -fprint0 f   find . -fls f   find . -exec touch f ;
find "-exec" touch {} ;   find . -okdir touch f ;   find . $X   sed -n 'w f' x   sed -n '1p;w f' x
sed -n -e 1p -e 'w f' x   sed -n 's/a/b/pw f' x   sed -n 's/x/touch f/e' x   sed -n 's,x,y,wf' x   sed -n '\;x;w f' x
sed -n '1e touch f' x   sed -n $'1p\nw f' x   sed -n -f s x   sed -n -E -f s x   sed -n x -f s   sed -n p -- -fs -i
sed -nf script x   sed -n --file=script x   sed -i s/a/b/ x   sed -ni p x   sed -n p x -i   sed -n p x --in-place
awk '{print > "f"}' x   tee f   uniq x f   uniq -- x f   file -C -m x   file -bCm x   file -kC x   file --compile -m x
file --comp -m x   tree -o f   tree -R -L 1   xxd -r x f   date -s 1   date 0101   hostname new   rg --pre touch x
rg --pre=touch x   rg --hostname-bin=touch x   pip list --cache-dir f   pip list --cache-di=f   pip list --log f
pip show --log f x   pip list --python ./evil   npm ls --cache f   npm ls --logs-dir=f   npm ls --node-options=x
npm run   cargo tree   cargo metadata   go list ./...   go list -mod=mod   go list -toolexec ./evil -export
pip list --keyring-provider subprocess   npm view x   docker -H ssh://x ps   docker --config d ps
kubectl --kubeconfig=evil get pods   kubectl get pods --kubeconfig=evil   kubectl get pods --kubeconfig evil
kubectl get pods --cache-dir=f   kubectl get pods --profile=cpu --profile-output=f   kubectl logs x --kubeconfig=evil
kubectl cluster-info dump --output-directory=f   printf -v x y   [ -v 'a[$(touch f)]' ]   [[ x -eq 'a[$(touch f)]' ]]
echo $((a[$(touch f)]))   ls ${x:-$(touch f)}   ls ${x[$(touch f)]}   ls ${!x}   ls > f   ls >& f   ls > /dev/../f
ls > /dev/null > f   ls > /dev/tcp/h/80   ls {fd}> f   cat <(touch f)   cat <<< `touch f`   cat x | sh
git show --textconv   git log --ext-diff --output x   shuf -o f x   ls $(touch f)   LESSOPEN='|x %s' less f   /tmp/ls
time ls   python3 -c 1   make -n   diff a b > f   sed 1e x   fd -x touch f   PAGER=touch git log   export X=1
ls; touch f   sort -ro f x
ls | xargs touch   ls & touch f   ls() { touch f; }; ls   trap 'touch f' EXIT   env touch f   command touch f
time -o f ls   compgen -C 'touch f'   hash -p /bin/touch ls; ls f   ./ls   {touch,f}
""")
# fmt: off
CHANGES += [
    "ls\ntouch f", "ls #\ntouch f", "cat <<E\n$(touch f)\nE", "cat <<'E'\nE\ntouch f", "sed -n 's/a/b/p\nw f' x",
]
# fmt: on
READS = rows(r"""
ls -la | sort   git log -p   git diff HEAD~1 -- x   git grep -nE 'a|O' -- x   git grep -e O x   git branch -vv
git branch -a   git cat-file -p HEAD   sed -n 1,20p x   sed -n 's/a/b/p' x   find . -name '*.py' -print0
file -m magic x   cat x 2>/dev/null   rg -n x y   wc -l x
""")
READS += ["cat <<'E'\n$(touch f)\nE"]


@pytest.mark.parametrize("line", CHANGES)
def test_a_command_that_changes_something_is_not_run_in_plan_mode(shell, line):
    assert Permissions([ALLOW], "plan").decide(shell, {"command": line}).action == "deny"


@pytest.mark.parametrize("line", READS)
def test_a_command_that_only_reads_runs_in_plan_mode(shell, line):
    assert Permissions([ALLOW], "plan").decide(shell, {"command": line}).action == "allow"


# A rule for one command allows no other

NOT_ECHO = rows(r"""
echo $(id)   echo `id`   echo "$(echo x)"   echo <(id)   echo >(id)   echo x > f   echo x >&f   echo x 2>f
echo x >| f   echo x <> f   echo x &>> f   echo x < /etc/shadow   echo x > /dev/tcp/h/1   echo x 3<f   echo x | sh
echo x & id   echo x |& id   echo a;;id   echo ${x:=$(id)}   echo ${x/$(id)}   echo "${x@P}"   echo ${!x*}
echo $((x[$(id)]))   echo $[x[$(id)]]   echo "${x[$(id)]}"   echo $'a\'; id #'   echo $"$(id)"   echo "`id`"
echo $(<x)   echo a#b; id   X=1 echo y   LD_PRELOAD=./x echo y   BASH_ENV=x echo y   echo() { id; }; echo x
function echo { id; }   alias echo=id   exec echo x   command echo x   builtin echo x   env echo x   eval echo x
sudo echo x   nohup echo x   coproc echo x   for i in $(id); do echo x; done   case $(id) in x) echo x;; esac
case x in $(id)) echo y;; esac   [[ $(id) ]] && echo x   ((x=$(id))); echo x   let x; echo y   trap id EXIT; echo x
echo x <<< $(id)   exec 3<>/dev/tcp/h/1; echo x >&3   readonly x=$(id); echo x   declare x=$(id)   export X=1; echo x
printf -v x y; echo x   set -x; echo x   . x; echo y   source x; echo y   cd /; echo x   true; echo x
echo x; history   echoo x   /bin/echo x   ./echo x   ECHO x   echo ${x:-'}'}; id   echo "${x:-'}"; id #'}"
echo x 1<>f   > f   { echo a; } > f   echo a >f'x'   echo a {fd}>f   PATH=. echo   ~/echo   $PWD/echo
cd sub && ./echo   sort -o f x   tee f   enable -f ./x echo   hash -p /bin/touch echo; echo f   sub/echo
echo ${x#\}}; id   echo "${x:-"; id; "}"   echo "$'"; id; "'"
""")
# fmt: off
NOT_ECHO += [
    "echo a\nid", "echo a\r\nid", "echo <<E\n$(id)\nE", "echo <<E\nE\nid", "echo <<-E\n\tE\nid", "echo <<E; id\nE",
    "echo a #\\\nid", "echo a\0b",
]
NOT_ECHO += [
    ["sh", "-c", "echo x"], ["bash", "-lc", "echo x"], ["bash", "-c", "echo $0", "$(id)"], ["/bin/echo", "x"],
    ["echo x"], ["env", "echo"], ["echo; touch f"], ["./echo"], ["echo\n"], ["", "echo"], ["/tmp/../bin/echo"],
    ["ECHO"],
]
# fmt: on


@pytest.mark.parametrize("line", NOT_ECHO)
def test_a_rule_that_allows_a_command_allows_no_other(shell, line):
    assert Permissions([Rule("shell", "echo *", "allow")]).decide(shell, {"command": line}).action == "ask"


DEEP = {
    "groups": "(" * 3000 + "rm x" + ")" * 3000,
    "substitutions": '"$(' * 2000 + "rm x" + ')"' * 2000,
    "parameters": "echo ${x:-" * 2500 + "$(rm x)" + "}" * 2500,
    "backticks": "`" * 301 + "rm x" + "`" * 301,
    "shells": "sh -c " * 300 + "'rm x'",
    "assignments": "A=1 " * 7000 + "rm x",
    "a comment": "#" + "x" * 29000 + "\nrm x",
    "nothing": "r" + "''" * 9000 + "m x",
}


@pytest.mark.parametrize("line", DEEP.values(), ids=DEEP)
def test_a_deeply_nested_command_is_found(shell, line):
    rules = [Rule("shell", "rm *", "deny", forbid=True)]
    assert Permissions(rules, "bypass").decide(shell, {"command": line}).action == "deny"


# Input of a background command is checked as one text


@pytest.mark.parametrize(
    "writes",
    [["rm f\n"], ["r", "m f\n"], ["r", "m", " f\n"], ["r\\", "\nm f\n"], ["echo 'a\n", "b'; rm f\n"]],
    ids=repr,
)
def test_a_word_in_pieces_is_judged_as_a_whole(tmp_path, writes):
    (tmp_path / "f").touch()
    registry = plugin_registry("shell", settings={"shell": {"root": str(tmp_path), "sandbox": "none"}})
    registry.permissions = Permissions([ALLOW, Rule("write_stdin", "*", "allow"), Rule("shell", "rm *", "deny")])

    async def main():
        async with registry:
            started = await registry.call("shell", {"command": ["cat"], "background": True, "wait": 0.01}, ANN)
            session = started.metadata["session"]
            kinds = []
            for text in writes:
                result = await registry.call("write_stdin", {"session": session, "text": text, "wait": 0.01}, ANN)
                kinds.append(result.kind)
            return kinds

    assert "denied" in asyncio.run(main())


# Spellings of URLs and paths that a tool asks about

# fmt: off
EVIL = [
    "https://evil.com/", "HTTPS://EVIL.COM", "https://evil.com.:443", "https://a@evil.com/", "https://a:b@evil.com/",
    "https://@evil.com/", "//evil.com/", "https:\\\\evil.com", "https://evil%2ecom/", "https://%65vil.com/",
    "https://\uff45vil.com/", "https://evil.com\\@good.com/", "https://x@y@evil.com/", "view-source:https://evil.com/",
    "https://good.com@evil.com:443/x",
]
# fmt: on
# fmt: off
ETC = [
    "/etc/x", "/etc/../etc/x", "/tmp/../etc/x", "//etc/x", "/etc//x", "/./etc/x", "/proc/self/root/etc/x",
    "file:///etc/x", "FILE:/etc/x", "file://localhost/etc/x",
]
# fmt: on


@pytest.mark.parametrize(
    "what", [*EVIL, "\thttps://evil.com/", "ht\ntps://evil.com/", *ETC, "/etc/x\n", "/etc/\0x"], ids=ascii
)
@pytest.mark.parametrize("name", ["asked", "fetched", "opened"])
def test_a_rule_that_denies_knows_every_spelling(tools, name, what):
    kind = "etc" if "etc" in what.casefold() else "evil"
    if {"fetched": "etc", "opened": "evil"}.get(name) == kind:
        return
    pattern = {"etc": "/etc/*", "evil": "https://evil.com/*"}[kind]
    permission = "zap" if name == "asked" else name
    registry = registry_of(tools, rules=[Rule("*", "*", "allow"), Rule(permission, pattern, "deny")])
    argument = {"asked": "what", "fetched": "url", "opened": "path"}[name]
    assert call(registry, name, {argument: what}).kind == "denied"
    assert not tools.ran


@pytest.mark.parametrize(
    "what",
    [
        "/src/../etc/x", "/src/..", "/src/x/../../etc", "src/x", "/SRC/x", "https://x/src/x",
        "https://ok.com.evil.com/", "https://ok.com@evil.com/", "https://ok.com:443@evil.com/",
        "https://ok.com/../../", "https://ok.com;evil.com/", "https://ok.com\\.evil.com/",
        "https://ok.com/ https://evil.com/", "https://ok.com/\n"
    ],
    ids=ascii,
)  # fmt: skip
def test_a_rule_that_allows_knows_only_what_can_be_read(tools, what):
    rules = [Rule("zap", "/src/*", "allow"), Rule("zap", "https://ok.com/*", "allow")]
    assert call(registry_of(tools, rules=rules), "asked", {"what": what}).kind == "denied"


# Values other than texts, defaults, and nested values


@pytest.mark.parametrize(
    ("rule", "arguments"),
    [
        (Rule("counted", "5", "deny", field="number"), '{"number": 5.0}'),
        (Rule("counted", "5", "deny", field="number"), '{"number": 50e-1}'),
        (Rule("counted", "5", "deny", field="number"), '{"number": 5.00000000000000000000001}'),
        (Rule("counted", "true", "deny", field="flag"), '{"flag": true}'),
        (Rule("counted", "false", "deny", field="flag"), "{}"),
        (Rule("counted", "null", "deny", field="text"), "{}"),
        (Rule("counted", "*evil*", "deny"), '{"text": "\\u0065vil"}'),
        (Rule("counted", "evil", "deny", field="items"), json.dumps({"items": ["a"] * 9000 + ["evil"]})),
        (Rule("counted", "*evil*", "deny"), json.dumps({"text": "a" * 900_000 + "evil"})),
        (Rule("plain", "a default", "deny"), "{}"),
        (Rule("plain", "a default", "deny", field="x"), "{}"),
        (Rule("opened", "/etc/*", "deny"), '{"path": ["/x", "/etc/x"]}'),
        (Rule("opened", "/etc/*", "deny"), '{"path": {"/etc/x": "y"}}'),
        (Rule("opened", "/etc/*", "deny"), '{"path": {"y": "/etc/x"}}'),
        (Rule("fetched", "https://evil.com/*", "deny"), '{"url": {"url": "https://evil.com"}}'),
        (Rule("outer", "*evil*", "deny", field="arguments"), '{"name": "plain", "arguments": {"x": {"y": ["evil"]}}}'),
        (Rule("outer", "*evil*", "deny"), '{"name": "plain", "arguments": {"evil": 1}}'),
        (Rule("remove", "*b*", "deny"), '{"pa\\u0074h": "a\\u0000b"}'),
    ],
    ids=str,
)
def test_a_rule_that_denies_knows_every_value(tools, rule, arguments):
    registry = registry_of(tools, rules=[Rule("*", "*", "allow"), rule])
    assert call(registry, rule.permission, arguments).kind == "denied"
    assert not tools.ran


# One approval is for one run


def once_only():
    answers = iter([Once()])
    return lambda request, context: next(answers, Reject("no"))


OUTER_REMOVE = {"name": "remove", "arguments": {"path": "a"}}


def test_one_approval_is_for_one_round_of_a_turn(tools):
    model = ScriptedModel([ToolCall("remove", {"path": "a"}, "1"), ToolCall("remove", {"path": "a"}, "1"), "done"])
    asyncio.run(run_turn(model, "hi", registry_of(tools), ANN, approver=once_only()))
    assert tools.ran == ["a"]


# Grants and stored results of different users

PEOPLE = [
    (ANN, ReadonlyContext(user="eve", session="s")),
    (ANN, ReadonlyContext(session="s")),
    (ReadonlyContext(session="s"), ReadonlyContext(user="", session="s")),
    (ReadonlyContext(session="s"), ReadonlyContext(user="None", session="s")),
    (ReadonlyContext(user="a/b", session="c"), ReadonlyContext(user="a", session="b/c")),
    (ReadonlyContext(user="a\0b", session="c"), ReadonlyContext(user="a", session="b\0c")),
    (ReadonlyContext(user="A", session="s"), ReadonlyContext(user="a", session="s")),
    (ReadonlyContext(user="é", session="s"), ReadonlyContext(user="e\u0301", session="s")),
    (ReadonlyContext(user="u", session="../v/s"), ReadonlyContext(user="v", session="s")),
    (ReadonlyContext(user="a"), ReadonlyContext(user="b")),
    (ReadonlyContext(user="a" * 300, session="s"), ReadonlyContext(user="a" * 299 + "b", session="s")),
]


@pytest.mark.parametrize(("one", "other"), PEOPLE, ids=ascii)
def test_grants_results_and_artifacts_of_one_user_are_not_anothers(tools, tmp_path, one, other):
    @tool(read_only=True)
    def long() -> str:
        return "KEPT\n" * 3000

    for grants in (None, FileApprovals(tmp_path / "approvals.json")):
        registry = registry_of(tools, approver=lambda request, context: Always(), grants=grants)
        call(registry, "remove", {"path": "a"}, one)
        registry.approver = None
        assert call(registry, "remove", {"path": "a"}, other).kind == "denied"
    memory = plugin_registry("memory", settings={"memory": {"folder": str(tmp_path / "memory")}})
    memory.register(long)
    first = call(memory, "long", {}, one).text
    kept = first.partition('id="')[2].partition('"')[0]
    assert "KEPT" in call(memory, "read_result", {"id": kept, "line": 2500}, one).text
    assert "KEPT" not in call(memory, "read_result", {"id": kept, "line": 2500}, other).text
    call(memory, "save_artifact", {"name": "a.txt", "content": "KEPT"}, one)
    assert "KEPT" not in call(memory, "load_artifacts", {"artifact_names": ["a.txt"]}, other).text


# Nested calls


@pytest.mark.parametrize("name", ["remove", "Remove", "remov", "outer"])
@pytest.mark.parametrize("way", ["outer", "batch", "agent"])
def test_a_nested_call_needs_its_approval(tools, way, name):
    inner = {"path": "a"} if name != "outer" else OUTER_REMOVE
    model = ScriptedModel([ToolCall(name, inner), "done"])
    registry = registry_of(tools, batch, agent_tool(Agent(name="agent", description="d", model=model)))
    arguments = {
        "outer": {"name": name, "arguments": inner},
        "batch": {"tool_calls": [{"tool": name, "parameters": inner}]},
        "agent": {"request": "x"},
    }[way]
    call(registry, way, arguments)
    assert not tools.ran


@pytest.mark.parametrize(
    ("rules", "mode", "options"),
    [
        ([Rule("plain", "*", "deny")], "default", {}),
        ([Rule("plain", "*evil*", "deny", forbid=True)], "bypass", {}),
        ([], "plan", {}),
        ([], "default", {"permissions": Permissions([Rule("plain", "*", "deny")])}),
        (
            [],
            "default",
            {"permissions": Permissions([Rule("plain", "*", "deny", forbid=True), Rule("*", "*", "allow")])},
        ),
        ([], "default", {"permissions": Permissions([Rule("plain", "*", "allow")], "plan")}),
    ],
)
@pytest.mark.parametrize("way", ["outer", "batch", "agent", "agent by name", "own registry"])
def test_rules_apply_to_nested_calls(tools, rules, mode, options, way):
    model = ScriptedModel([ToolCall("plain", {"x": "evil"}), "done"])
    own = {"agent by name": {"where": "name:plain"}, "own registry": {"registry": registry_of(tools)}}.get(way, {})
    agent = agent_tool(Agent(name="agent", description="d", model=model, **own), read_only=True)
    registry = registry_of(tools, batch, agent, rules=rules, mode=mode)
    arguments = {
        "outer": {"name": "plain", "arguments": {"x": "evil"}},
        "batch": {"tool_calls": [{"tool": "plain", "parameters": {"x": "evil"}}]},
    }
    call(registry, way if way in arguments else "agent", arguments.get(way, {"request": "x"}), **options)
    assert not tools.ran


@pytest.mark.parametrize("way", ["plain", "outer", "batch", "agent"])
def test_a_tool_that_was_not_offered_is_not_run_by_a_nested_call(tools, way):
    model = ScriptedModel([ToolCall("plain", {"x": "a"}), "done"])
    registry = registry_of(tools, batch, agent_tool(Agent(name="agent", description="d", model=model)))
    resolved = asyncio.run(registry.resolve(ANN, where="not name:plain"))
    arguments = {
        "plain": {},
        "outer": {"name": "plain", "arguments": {}},
        "batch": {"tool_calls": [{"tool": "plain"}]},
        "agent": {"request": "x"},
    }
    call(registry, way, arguments[way], resolved=resolved)
    assert not tools.ran


# Limits count all calls

LIMITED = {"guard": {"doom_loop": 0, "limits": [{"calls": 2, "tools": "plain"}]}}


@pytest.mark.parametrize(
    "calls",
    [
        [ToolCall("plain", {"x": str(n)}, str(n)) for n in range(5)],
        [ToolCall("Plain", {"x": str(n)}, str(n)) for n in range(5)],
        [ToolCall("batch", {"tool_calls": [{"tool": "plain", "parameters": {"x": str(n)}} for n in range(5)]}, "1")],
        [ToolCall("outer", {"name": "plain", "arguments": {"x": str(n)}}, str(n)) for n in range(5)],
    ],
    ids=["side by side", "by another spelling", "in a batch", "inside of others"],
)
def test_a_limit_counts_nested_and_renamed_calls(tools, calls):
    registry = plugin_registry("guard", settings=LIMITED)
    registry.register(tools, batch)
    asyncio.run(registry.dispatch(calls, context=ANN))
    assert len(tools.ran) == 2


def test_a_limit_counts_the_calls_of_agents(tools):
    calls = [ToolCall("plain", {"x": str(n)}) for n in range(5)]
    own = ToolRegistry()
    own.register(tools)
    homes = {"one": None, "two": None, "three": own}  # the registries of the agents
    helpers = [Agent(name=name, model=ScriptedModel([calls, "done"]), registry=home) for name, home in homes.items()]
    registry = plugin_registry("guard", settings=LIMITED)
    registry.register(tools, *map(agent_tool, helpers))
    asyncio.run(registry.dispatch([ToolCall(each.name, {"request": "x"}) for each in helpers], context=ANN))
    assert len(tools.ran) == 2


def test_a_gate_judges_the_calls_of_an_agent_in_its_own_registry_by_its_own_model(tools):
    judge = ScriptedModel([ToolCall("final_result", {"result": {"allowed": n < 2}}, "v") for n in range(3)])
    calls = [ToolCall("plain", {"x": str(n)}) for n in range(2)]
    own = ToolRegistry()
    own.register(tools)
    helper = Agent(name="helper", model=ScriptedModel([calls, "done"]), registry=own)
    registry = plugin_registry("guard", settings={"guard": {"gate": {"model": "judge/x", "calls": "Only once."}}})
    registry.add("models", "judge", lambda _name: judge)
    registry.register(agent_tool(helper))
    asyncio.run(registry.dispatch([ToolCall("helper", {"request": "x"})], context=ANN))
    assert (len(tools.ran), len(judge.requests)) == (1, 3)


# Model classes


class Closed(pydantic.BaseModel):
    to: str = pydantic.Field("x", validation_alias=pydantic.AliasChoices("to", "recipient"))


class Deep(pydantic.BaseModel):
    to: str = pydantic.Field("x", validation_alias=pydantic.AliasPath("deep", 0))


@pytest.mark.parametrize("model", [Closed, Deep])
@pytest.mark.parametrize("arguments", [{"to": "evil"}, {"recipient": "evil"}, {"deep": ["evil"]}, {"force": "evil"}])
def test_a_model_class_takes_no_argument_by_a_key_that_rules_do_not_know(model, arguments):
    ran = []

    def send(message):
        ran.append(message)

    send.__annotations__ = {"message": model}
    registry = registry_of(tool(send), rules=[Rule("send", "evil", "deny", field="to")])
    assert call(registry, "send", arguments).kind in {"denied", "invalid_arguments"}
    assert not ran
