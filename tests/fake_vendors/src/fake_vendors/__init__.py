"""A model server on 127.0.0.1 for tests: real SDKs talk to it, and a script says what the model answers.

    from fake_vendors import Call, Error, ModelServer, Round

    def test_a_whole_loop():
        script = [
            Round(text="Let me look.", calls=[Call("weather", {"city": "Oslo"}), Call("clock")]),
            Round(text="It is noon, and it rains."),
        ]
        with ModelServer(script) as server:
            with OpenAI(api_key="x", base_url=server.url + "/v1", max_retries=0) as client:
                ...
        assert server.requests[1].body["messages"][-1]["role"] == "tool"

One script serves every provider; the path tells which one speaks:

- OpenAI chat completions, `/v1/chat/completions`, and responses, `/v1/responses`:
  `OpenAI(api_key="x", base_url=url + "/v1", max_retries=0)`
- Anthropic messages, `/v1/messages`: `Anthropic(api_key="x", base_url=url, max_retries=0)`
- Gemini, `/v1beta/models/{model}:generateContent` and `:streamGenerateContent` (`/v1`, too):
  `genai.Client(api_key="x", http_options=HttpOptions(base_url=url))`
- Bedrock Converse, `/model/{id}/converse` and `/converse-stream`:
  `boto3.client("bedrock-runtime", endpoint_url=url, region_name="us-east-1", ...)`; close its streams
- Ollama, `/api/chat`: any HTTP client

`server.requests` holds what was sent: path, headers, parsed body. `server.check()` fails on rounds that nobody asked
for and on requests that have no round; leaving the `with` checks, too. Ids are made from the round's number
(`call_1_0`, `toolu_1_0`, `tooluse_1_0`; Gemini and Ollama give none), unless a `Call` has its own.

What can go wrong has a field of `Round`, `Call` or `Error`:

    Round(error=Error(429, retry_after=2))                       # the provider's own error body and headers
    Round(error=Error(529, after=3), text="Half a sentence")     # an error event within the stream
    Round(text="Half a sentence", break_after=3)                 # the connection is cut after three events
    Round(text="Half a sentence", stop_after=3)                  # the stream ends in good order, too early
    Round(calls=[Call("write")], never_ends=500)                 # arguments go on and on, then the connection is cut
    Round(calls=[Call("read", '{"path": ')])                     # arguments that are no JSON
    Round(calls=[Call("read", id="a"), Call("read", id="a")])    # one id twice
    Round(calls=[Call("read"), Call("read", same_index=True)])   # a new call under an old index
    Round(calls=[Call("read", id=None), Call("no_such_tool")])   # no id; an unknown name
    Round(text="Half a sentence", finish="length")               # cut off by the token limit
    Round(refusal="I won't.")                                    # the model refuses
    Round()                                                      # an empty answer
    Round(raw={"choices": []})                                   # anything else: the provider's JSON as it stands

What breaks the provider's rules is refused with status 400 in the provider's shape; `server.refusals` says why, and no
round is used. That is: calls and results that don't pair as the provider wants; calls in the history of tools that the
request doesn't declare (a name that a round made up may come back; `ModelServer(undeclared_calls=True)` allows all);
names that are doubled or don't fit; a tool choice that names no declared tool; fields that are missing or that the
provider doesn't know; pictures where they aren't taken. The rules are those of the providers' API references; lengths
and counts are known from their error reports.
"""

from __future__ import annotations

from fake_vendors.server.script import (
    Call as Call,
    Citation as Citation,
    Error as Error,
    Page as Page,
    Reasoning as Reasoning,
    Request as Request,
    Round as Round,
    Search as Search,
    Usage as Usage,
)
from fake_vendors.server.server import ModelServer as ModelServer
