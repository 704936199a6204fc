"""The tools, the request processor and the settings. The tools' docstrings and parameters are for the model."""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

import platformdirs
from annotated_types import Ge, Le, MaxLen, MinLen
from attrs import field, frozen

from pegboard import (
    Artifacts,
    Concurrency,
    Memory,
    MemoryEntry,
    ModelRequest,
    Preview,
    ReadonlyContext,
    TextContent,
    ToolContext,
    ToolError,
    ToolResult,
    tool,
)
from pegboard.errors import ArtifactError
from pegboard.schema.converter import Allowed
from pegboard.text import visible
from pegboard.threads import run_in_thread
from pegboard.tools import Content
from pegboard_memory.artifacts import DirectoryArtifacts
from pegboard_memory.database import Database
from pegboard_memory.memory import MOST_CHARACTERS, Blocks, SqliteMemory, SqliteTexts, change_text
from pegboard_memory.router import Message, MessageRouter, OutboxRouter, TargetType

BlockOperation = Literal["create", "append", "replace", "archive"]
Name = Annotated[str, MinLen(1), MaxLen(255)]  # of a block or a file
BlockText = Annotated[str, MaxLen(MOST_CHARACTERS)]
_MOST_LOADED: Final = 20  # files in one call
_MOST_SAVED: Final = 1 << 20  # characters of a file that the model writes
_MOST_ENTRY: Final = 2_000  # characters of one entry that the model gets
_MOST_NAMES: Final = 100  # artifacts that a request names
_MOST_PRELOADED: Final = 30_000  # characters of all blocks in a request, and of all entries
_INSTRUCTIONS: Final = (
    "You have a memory of earlier conversations. <MEMORY> contains your memory blocks: keep them up to date with "
    "update_memory. Search the rest with load_memory before you say that you don't know something."
)
_ARTIFACTS: Final = "Saved files. Read a file with load_artifacts before you answer questions about it."


@frozen
class Settings:
    """The plugin's settings.

    Attributes:
        folder: Where everything is stored.
        preload: Whether the blocks, entries that match the user's words, and the names of artifacts are added to
            requests.
        entries: How many entries are added to a request at most.
        core: The names of blocks that can't be archived.
    """

    folder: Annotated[str, Allowed("the path of a folder", lambda path: path.strip("\0"))] = field(
        factory=lambda: f"{platformdirs.user_data_dir('pegboard', appauthor=False)}/memory"
    )
    preload: bool = True
    entries: Annotated[int, Allowed("a whole number from 0 to 100", lambda number: 0 <= number <= 100)] = 5
    core: tuple[str, ...] = ()


class MemoryTools:
    """The tools, over one folder.

    Args:
        settings: The plugin's settings.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        folder = Path(self.settings.folder).expanduser()
        self.database = Database(folder / "memory.db")
        self.blocks = Blocks(self.database, self.settings.core)
        self.memory = SqliteMemory(self.database)
        self.texts = SqliteTexts(self.database)
        self.outbox = OutboxRouter(self.database)
        self.artifacts = DirectoryArtifacts(folder / "artifacts")

    def _block_preview(self, arguments: Mapping[str, Any], context: ReadonlyContext) -> Preview:
        """The preview for an approval: the change of the block."""
        name, operation = str(arguments["name"]), arguments["operation"]
        before = self.blocks.all(context.user, context.agent).get(name, "")
        content, old = arguments.get("content") or "", arguments.get("old_content") or ""
        if operation == "archive":
            return Preview(f"Archive block {name!r}", before)
        try:
            after = content if operation == "create" else change_text(before, name, content, _old_of(operation, old))
        except ToolError as error:
            return Preview(f"This call would fail: {error.text}")
        lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm=""))[2:]  # without header
        return Preview(f"{str(operation).capitalize()} block {name!r}", "\n".join(lines))

    @tool(
        title="Update the memory",
        read_only=False,
        destructive=False,
        idempotent=False,
        open_world=False,
        tags=("memory",),
        permission_arguments={"name": "text"},
        concurrency=Concurrency("key", ("name",)),
        preview=_block_preview,
        instructions=_INSTRUCTIONS,
    )
    def update_memory(
        self,
        operation: BlockOperation,
        name: Name,
        content: BlockText = "",
        old_content: BlockText = "",
        *,
        context: ToolContext,
    ) -> ToolResult:
        """Edit one of the memory blocks in your instructions. Returns the length of the block.

        You see the changed block in your next request.

        Args:
            operation: "create": add a new block. "append": add content at the end of a block, after a blank line.
                "replace": replace old_content with content. "archive": remove a block from your instructions;
                load_memory still finds it.
            name: Name of the block, such as "user" or "project plan".
            content: The text to write. For "archive": an optional label for the archived block.
            old_content: Only for "replace": the exact text to replace. It must occur once in the block. Leave it empty
                to replace the whole block.
            context: The running call.
        """
        if not content and operation != "archive" and not (operation == "replace" and old_content):  # may delete text
            raise ToolError(f'operation "{operation}" requires content.')
        if operation == "archive":
            label = self.blocks.archive(context.user, context.agent, context.session, name, content or None)
            return ToolResult(f"Archived block {name!r} as {label!r}.", metadata={"block": name, "label": label})
        if operation == "create":
            text = self.blocks.create(context.user, context.agent, name, content)
        else:
            text = self.blocks.change(context.user, context.agent, name, content, _old_of(operation, old_content))
        verb = {"create": "Created", "append": "Appended to", "replace": "Replaced text in"}[operation]
        return ToolResult(f"{verb} block {name!r}: {len(text):,} characters.", metadata={"block": name, "text": text})

    @tool(title="Search the memory", read_only=True, idempotent=True, open_world=False, tags=("memory",))
    async def load_memory(
        self,
        query: Annotated[str, MinLen(1), MaxLen(MOST_CHARACTERS)],
        limit: Annotated[int, Ge(1), Le(50)] = 10,
        *,
        context: ToolContext,
    ) -> ToolResult:
        """Search memory from earlier conversations and archived blocks.

        Returns the best matches first, each with its author and time. If nothing matches, try other words.

        Args:
            query: Words to search for. There is no search syntax.
            limit: Maximum number of results.
            context: The running call.
        """
        entries = await self._search(context, query, limit)
        if not entries:
            return ToolResult("No memories match. Try other words.", structured_content={"memories": []})
        memories = [
            {"text": each.text[:_MOST_ENTRY], "author": each.author, "time": _time(each), "session": each.session}
            for each in entries
        ]
        lines = (f"[{_time(each)}] {_entry_text(each)}" for each in entries)
        return ToolResult("\n".join(lines), structured_content={"memories": memories})

    async def preload_memory(
        self, request: ModelRequest, context: ReadonlyContext, services: ToolContext
    ) -> ModelRequest | None:
        """Request processor: adds the memory blocks, and entries that match the user's last message."""
        blocks = await run_in_thread(self.blocks.all, context.user, context.agent)
        parts: list[str] = []
        if blocks:
            texts = (f'<block name="{_escape(name)}">\n{_escape(text)}\n</block>' for name, text in blocks.items())
            parts.append(f"<MEMORY>\n{_join_what_fits(texts)}\n</MEMORY>")
        words = next((text for each in reversed(request.messages) if each.role == "user" and (text := each.text)), "")
        if words and self.settings.entries and (entries := await self._search(services, words, self.settings.entries)):
            texts = (f"Time: {_time(each)}\n{_escape(_entry_text(each))}" for each in entries)
            parts.append(f"<PAST_CONVERSATIONS>\n{_join_what_fits(texts)}\n</PAST_CONVERSATIONS>")
        return request.with_instructions(*parts) if parts else None

    async def _search(self, context: ToolContext, query: str, limit: int) -> tuple[MemoryEntry, ...]:
        memory = await context.use_or(Memory, lambda: self.memory)
        # Only our own memory holds archived blocks, which other agents of the user must not get.
        own = {"agent": context.agent} if isinstance(memory, SqliteMemory) else {}
        return await memory.search(query, user=context.user, limit=limit, **own)

    def _artifact_preview(self, arguments: Mapping[str, Any]) -> Preview:
        """The preview for an approval: the text to store."""
        content = str(arguments["content"])
        return Preview(f"Save {arguments['name']} ({len(content):,} characters)", content)

    @tool(
        title="Save an artifact",
        read_only=False,
        destructive=False,
        idempotent=False,
        open_world=False,
        tags=("artifacts",),
        permission_arguments={"name": "text"},
        concurrency=Concurrency("key", ("name",)),
        preview=_artifact_preview,
    )
    async def save_artifact(
        self, name: Name, content: Annotated[str, MaxLen(_MOST_SAVED)], *, context: ToolContext
    ) -> ToolResult:
        """Save a text as a file. Returns the number of its version.

        Saving under an existing name adds a version; old versions are kept. Read files with load_artifacts.

        Args:
            name: File name, such as "report.md" or "charts/2026.csv". Files belong to this conversation; a name that
                begins with "user:", such as "user:report.md", is shared by all conversations of the user.
            content: The complete text of the file.
            context: The running call.
        """
        artifacts = await self._find_artifacts(context)
        version = await artifacts.save(name, TextContent(content), user=context.user, session=context.session)
        context.actions.saved(name, version)
        return ToolResult(f"Saved {name!r} as version {version}.", metadata={"name": name, "version": version})

    async def _announce_artifacts(self, request: ModelRequest, services: ToolContext) -> ModelRequest | None:
        """Request processor of `load_artifacts`: adds the names of the artifacts that it can read."""
        if not self.settings.preload:
            return None
        artifacts = await self._find_artifacts(services)
        names = await artifacts.list(user=services.user, session=services.session)
        if not names:
            return None
        more = len(names) - _MOST_NAMES
        rest = f"\nAnd {more} more: call load_artifacts without names to list them." if more > 0 else ""
        listed = json.dumps(names[:_MOST_NAMES], ensure_ascii=False)
        return request.with_instructions(f"{_ARTIFACTS}\n{listed}{rest}")

    @tool(
        title="Load artifacts",
        read_only=True,
        idempotent=True,
        open_world=False,
        tags=("artifacts",),
        concurrency=Concurrency("shared"),
        process_request=_announce_artifacts,
    )
    async def load_artifacts(
        self,
        artifact_names: Annotated[list[Name], MaxLen(_MOST_LOADED)] = [],  # noqa: B006  only read
        version: Annotated[int, Ge(1)] | None = None,
        *,
        context: ToolContext,
    ) -> ToolResult:
        """Read saved files, or list all of them.

        Returns the content of each file after its name; without names, the names of all files.

        Args:
            artifact_names: Names of the files to read. Leave it empty to list the names of all files.
            version: Version to read, from 1. The default is the newest.
            context: The running call.
        """
        artifacts = await self._find_artifacts(context)
        if not artifact_names:
            names = await artifacts.list(user=context.user, session=context.session)
            return ToolResult(
                "\n".join(names) or "There are no saved files.", structured_content={"artifacts": [*names]}
            )
        parts: list[Content] = []
        missing: list[str] = []
        for name in dict.fromkeys(artifact_names):
            try:
                content = await artifacts.load(name, version, user=context.user, session=context.session)
            except ArtifactError as error:
                missing.append(error.text)
            else:
                parts += [TextContent(f"{name}:"), content]
        if not parts:
            newest = "" if version is None else " Leave out version to read the newest."
            raise ToolError(" ".join(missing), hint=f"Call load_artifacts without names to list all files.{newest}")
        return ToolResult([*parts, *map(TextContent, missing)])

    async def _find_artifacts(self, context: ToolContext) -> Artifacts:
        return await context.use_or(Artifacts, lambda: self.artifacts)

    def _values_for_rules(self, arguments: Mapping[str, Any], context: ReadonlyContext) -> Mapping[str, Any]:
        """The recipient as `"agent:planner"`, in place of its id alone."""
        target_type = arguments["target_type"]
        return {"target_id": f"{target_type}:{_recipient_id(target_type, arguments.get('target_id'), context.user)}"}

    def _message_preview(self, arguments: Mapping[str, Any], context: ReadonlyContext) -> Preview:
        """The preview for an approval: the recipient and the message."""
        recipient = self._values_for_rules(arguments, context)["target_id"]
        return Preview(f"Send a message to {recipient}", str(arguments["content"]))

    @tool(
        title="Send a message",
        read_only=False,
        destructive=False,
        idempotent=False,
        open_world=True,
        tags=("messages",),
        permission="message",
        permission_arguments={"target_id": "text"},
        permission_values=cast("Any", _values_for_rules),  # a method, bound to the instance later
        concurrency=Concurrency("key", ("target_id",)),
        preview=_message_preview,
    )
    async def send_message(
        self,
        target_type: TargetType,
        content: Annotated[str, MinLen(1), MaxLen(MOST_CHARACTERS)],
        target_id: Annotated[str, MaxLen(200)] = "",
        metadata: dict[str, Any] = {},  # noqa: B006  only read
        *,
        context: ToolContext,
    ) -> ToolResult:
        """Send a message to a user, another agent, a group or a channel.

        Returns the id of the message at once. It doesn't return an answer, so don't wait for one.

        Args:
            target_type: Type of the recipient.
            content: Text of the message.
            target_id: Id of the recipient. Required, except for "user": there, the default is the current user.
            metadata: Additional data as a JSON object.
            context: The running call.
        """
        if not (recipient_id := _recipient_id(target_type, target_id, context.user)):
            raise ToolError(f"target_id is required for target_type {target_type!r}.")
        if visible(target_id) != target_id or target_id.strip() != target_id:  # it would look like another's
            raise ToolError(f"target_id {target_id!a} must not contain hidden characters, line breaks or outer spaces.")
        sender = (context.user, context.agent, context.session)
        message = Message(target_type, recipient_id, content, dict(metadata), *sender)
        router = await context.use_or(MessageRouter, lambda: self.outbox)
        state = await router.send(message)
        return ToolResult(f"Message {message.id} to {message.target}: {state}.", metadata={"message": message.id})


def _old_of(operation: BlockOperation, old: str) -> str | None:
    return None if operation == "append" else old  # as `Blocks.change` takes it


def _recipient_id(target_type: str, target_id: str | None, user: str | None) -> str:
    """The id of a message's recipient, by default the current user; empty if there is none."""
    return target_id or (user if target_type == "user" else None) or ""


def _time(entry: MemoryEntry) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(entry.time))


def _entry_text(entry: MemoryEntry) -> str:
    cut = "" if len(entry.text) <= _MOST_ENTRY else f" [{len(entry.text) - _MOST_ENTRY:,} more characters omitted]"
    return f"{entry.author or 'unknown'}: {entry.text[:_MOST_ENTRY]}{cut}"


def _escape(text: str) -> str:
    """The text for use between XML tags or in an attribute."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def _join_what_fits(texts: Iterable[str]) -> str:
    """The first of the texts, as many as fit into a request."""
    fitting: list[str] = []
    left = _MOST_PRELOADED
    for text in texts:
        left -= len(text)
        if left < 0:
            fitting.append("[The rest is omitted. Find it with load_memory, or archive blocks that you don't need.]")
            break
        fitting.append(text)
    return "\n".join(fitting)
