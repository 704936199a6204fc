"""Clients of the SDKs: keys, secrets, closing, and lazy imports."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback
from contextlib import aclosing, asynccontextmanager

import pytest

from fake_vendors import Error, ModelServer, Round
from fake_vendors.contract.vendor import NOWHERE, needs
from pegboard import ModelError, ModelRequest, NamedTool, ToolRegistry, Turn, TurnLimits, run_turn, stream_turn
from pegboard.errors import ExportError
from pegboard.testing import check_plugin

HI = ModelRequest("Hi")
KEY = "sk-very-secret"


async def asked(vendor, url, **options):
    async with vendor.at(url, **options) as model:
        return (await model.respond(HI)).text


def bare(vendor, **options):
    """A model with only these options."""
    return vendor.kind(vendor.model, **options)


# --- clients ---


def test_the_sdks_refusal_of_an_option_is_a_model_error(vendor):
    for options in vendor.odd_options:
        with pytest.raises(ModelError, match="no client can be made: ") as caught:
            bare(vendor, **{**vendor.made, **options})
        assert caught.value.__cause__ is not None
        assert not caught.value.retryable


def test_a_client_that_is_given_is_used_and_stays_open(vendor):
    async def main(url):
        async with vendor.client(url, KEY) as client:
            texts = [await asked(vendor, url, client=client) for _ in range(2)]
            assert not vendor.is_closed(client)
            return texts

    with ModelServer([Round(text="One."), Round(text="Two.")]) as server:
        assert asyncio.run(main(server.url)) == ["One.", "Two."]


def test_a_client_is_not_given_together_with_what_makes_one(vendor):
    with pytest.raises(TypeError, match="leave out base_url, timeout"):
        bare(vendor, client=object(), base_url="x", timeout=3)


def test_one_model_serves_one_event_loop_after_the_other_and_may_be_asked_again(vendor):
    async def main():
        async with aclosing(model):
            return [(await model.respond(HI)).text for _ in range(2)]

    loops = 2 if vendor.many_loops else 1
    with ModelServer([Round(text="Hi.")] * 2 * loops) as server:
        model = bare(vendor, base_url=server.url + vendor.base, **vendor.made)
        assert [asyncio.run(main()) for _ in range(loops)] == [["Hi.", "Hi."]] * loops


def test_a_model_has_a_name_provider_and_repr(vendor):
    model = bare(vendor, base_url=NOWHERE, **vendor.made)
    asyncio.run(model.aclose())
    asyncio.run(model.aclose())
    assert (model.name, model.provider, model.exporter.name) == (vendor.model, *[vendor.provider] * 2)
    assert repr(model) == f"{vendor.kind.__name__}({vendor.model!r}, provider={vendor.provider!r})"


def test_an_unmet_tool_choice_is_an_export_error(vendor):
    async def main():
        async with vendor.at(NOWHERE) as model:
            await model.respond(HI.evolve(tool_choice=NamedTool("nothing")))

    with pytest.raises(ExportError, match="nothing"):
        asyncio.run(main())


def test_the_models_of_the_provider_are_listed(vendor):
    async def main(url):
        async with aclosing(bare(vendor, base_url=url + vendor.base, **vendor.made)) as model:
            return await model.models()

    with ModelServer(pages=vendor.listing) as server:
        assert asyncio.run(main(server.url)) == ["one", "two"]
    for pages, status in (({}, 404), (dict.fromkeys(vendor.listing, "no list"), None)):
        with ModelServer(pages=pages) as server, pytest.raises(ModelError) as caught:
            asyncio.run(main(server.url))
        assert caught.value.status == status


# --- keys ---


@needs("needs_key")
def test_without_a_key_the_error_names_the_variables(vendor, monkeypatch):
    others = {name: fact for name, fact in vendor.made.items() if name != "api_key"}
    for held in (None, "", " \n"):
        for _, variable in vendor.keys[:1]:
            monkeypatch.delenv(variable, raising=False)
            if held is not None:
                monkeypatch.setenv(variable, held)
            with pytest.raises(ModelError, match=f"there is no API key: .*{variable}") as caught:
                bare(vendor, **others)
            assert (caught.value.code, caught.value.retryable) == ("missing_api_key", False)


def test_keys_are_sent_stripped(vendor, monkeypatch):
    def sends(**options):
        with ModelServer([Round(text="Hi.")]) as server:
            asyncio.run(asked(vendor, server.url, **options))
        return vendor.sent(server.requests[0], KEY)

    for option, variable in vendor.keys:
        assert sends(**{"api_key": None, option: f" {KEY}\n"})
        with monkeypatch.context() as patched:
            patched.setenv(vendor.keys[0][1], " \n")  # nothing but space is no key
            patched.setenv(variable, f" {KEY}\n")
            assert sends(api_key=None)


@pytest.mark.parametrize("key", ["sk-very\nsecret", "sk-very-secret\0", "sk-very-secrét"])
def test_a_key_that_cannot_be_sent_is_an_error_that_names_where_it_is_from(vendor, monkeypatch, key):
    for option, variable in vendor.keys:
        cases = [({**vendor.made, "api_key": None, option: key}, f"{option}=")]
        if "\0" not in key:  # the environment can't hold it
            monkeypatch.setenv(variable, key)
            cases.append(({**vendor.made, "api_key": None}, variable))
        for options, named in cases:
            with pytest.raises(ModelError, match=named) as caught:
                bare(vendor, **options)
            assert (caught.value.code, caught.value.retryable) == ("invalid_api_key", False)
            assert "sk-very" not in shown(caught.value)
        monkeypatch.delenv(variable, raising=False)


# --- secrets ---


def shown(error):
    """Everything that an error shows, with the errors it is chained to."""
    return "".join([*traceback.format_exception(error), repr(error), str(error.code), str(error.request_id)])


def test_a_server_that_echoes_the_key(way):
    for error in (Error(401, f"no: Bearer {KEY}"), Error(403, KEY), Error(400, body=f"<html>{KEY}")):
        played = way.play([Round(error=error)], facts={**way.vendor.made, way.vendor.secret: KEY})
        assert isinstance(played.error, ModelError)
        assert error.body or "***" in str(played.error)
        assert KEY not in shown(played.error) + repr(played.events)


def test_a_stream_that_echoes_the_key(streaming):
    error = Error(500, f"no: Bearer {KEY}", after=streaming.vendor.text_after)
    facts = {**streaming.vendor.made, streaming.vendor.secret: KEY}
    played = streaming.play([Round(text=("Half ", "a ", "word"), error=error)], facts=facts)
    assert "no: " in played.why
    assert "***" in played.why
    assert KEY not in repr(played.events) + repr(played.outcome) + repr(played.error)


def test_a_transport_that_echoes_the_key(way):
    async def main(url, end):
        async with way.vendor.client(url, KEY + end) as client, way.vendor.at(url, client=client) as model:
            return await way.turn(model, "Hi", ToolRegistry(), limits=TurnLimits(retries=0))

    with ModelServer([]) as server:
        errors = [asyncio.run(main(server.url, end)).error for end in way.vendor.unsendable]
    assert [type(error) for error in errors] == [ModelError] * len(errors)
    assert KEY not in "".join(map(shown, errors))


# --- leaving ---


class Silent:
    """A server that may start an answer once it is released, and waits until either side closes the connection."""

    def __init__(self, begun=b"", kind=""):
        self.asked, self.begin, self.hang_up, self.left = (asyncio.Event() for _ in range(4))
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        self._begun = head + b"%x\r\n%b\r\n" % (len(begun), begun) if begun else b""

    async def serve(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = (line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        self.asked.set()
        await self.begin.wait()
        writer.write(self._begun)
        await writer.drain()
        gone = asyncio.ensure_future(reader.read())  # ends when the connection does
        await asyncio.wait([gone, asyncio.ensure_future(self.hang_up.wait())], return_when="FIRST_COMPLETED")
        writer.close()
        await gone
        self.left.set()


@asynccontextmanager
async def silent_model(vendor, *, begins, held=False, **options):
    silent = Silent(vendor.begun, vendor.stream_type) if begins else Silent()
    if not held:
        silent.begin.set()
    server = await asyncio.start_server(silent.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with asyncio.timeout(60), server, vendor.at(url, **options) as model:
        yield model, silent
        await silent.left.wait()


async def cancelled(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@needs("hangs_up")
def test_a_turn_that_is_cancelled_closes_the_connection(way):
    async def turn(model):
        if not way.streamed:
            return await run_turn(model, "Go on.", ToolRegistry())
        async with aclosing(stream_turn(model, "Go on.", ToolRegistry())) as events:
            return [event async for event in events]

    async def main():
        async with silent_model(way.vendor, begins=False) as (model, silent):
            running = asyncio.ensure_future(turn(model))
            await silent.asked.wait()
            await cancelled(running)

    asyncio.run(main())


@pytest.mark.parametrize("how", ["break", "cancel"])
def test_a_stream_that_is_left_closes_the_connection(vendor, how):
    async def main():
        async with silent_model(vendor, begins=True) as (model, _):
            async with aclosing(model.stream(HI)) as pieces:
                first = await anext(pieces)
                if how == "cancel":
                    waiting = asyncio.ensure_future(_to_the_end(pieces))
                    await asyncio.sleep(0)
                    await cancelled(waiting)
            return first.text

    assert asyncio.run(main()) == "Half"


async def _to_the_end(pieces):
    async for _ in pieces:
        pass


def test_an_interrupted_turn_keeps_the_text_so_far(vendor):
    async def main():
        async with silent_model(vendor, begins=True) as (model, _):
            turn = Turn(model, "Go on.", ToolRegistry())
            async for event in turn.events():
                if event.type == "delta":
                    turn.interrupt("enough")
            return turn.outcome

    outcome = asyncio.run(main())
    assert (outcome.ended, outcome.detail) == ("interrupted", "enough")
    assert outcome.messages[-1].text.startswith("Half")


# --- the plugin ---


def test_the_plugin_keeps_the_contract(vendor, monkeypatch):
    """It loads completely, its manifest is correct, and its import is cheap."""
    monkeypatch.setattr("pegboard.testing.check.LOAD_SECONDS", 120.0)  # on a busy machine, too
    check_plugin(vendor.plugin)


@pytest.mark.slow
def test_a_registry_makes_the_model_and_only_then_are_sdk_and_exporter_imported(vendor, tmp_path):
    """With the host's options, in a new process."""
    package, kind = vendor.package.__name__, vendor.kind.__name__
    wires = tuple(f"{package}.{wire}" for wire in vendor.wires)
    options = {name: fact for name, fact in vendor.made.items() if isinstance(fact, str)}
    script = f"""
import asyncio, sys, pegboard, {package}.plugin
registry = pegboard.load(config=pegboard.Config())
try: registry.model('nobody/x')
except pegboard.ModelError as error: print({vendor.path.partition("/")[0]!r} in str(error))
print([name for name in sys.modules if name.startswith({(*vendor.sdk, *wires)!r})])
from {package} import {kind}
print([name for name in sys.modules if name.startswith({vendor.sdk!r})])
try: registry.model({vendor.path!r})
except pegboard.ModelError as error: print(error)
model = registry.model({vendor.path!r}, **{options!r})
asyncio.run(model.aclose())
print(type(model) is {kind}, model.name, model.provider, registry.exporter(model.provider).name)
"""
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True, cwd=tmp_path)
    known, before, by_class, *error, made = done.stdout.splitlines()
    assert (known, before, by_class) == ("True", "[]", "[]")
    assert made == f"True {vendor.model} {vendor.provider} {vendor.provider}"
    assert not (vendor.needs_key and vendor.keys) or vendor.keys[0][1] in error[0]


def test_every_name_of_the_package_is_there_and_nothing_else(vendor):
    assert set(vendor.package.__all__) <= set(dir(vendor.package))
    for name in vendor.package.__all__:
        assert getattr(vendor.package, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'NoSuchThing'"):
        _ = vendor.package.NoSuchThing
