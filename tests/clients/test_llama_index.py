"""LlamaIndex's client of APIs that are like OpenAI's."""

import asyncio

from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel, Field

from tests.clients.conftest import Platform

QUESTION = "What is the capital of France?"


class Capital(BaseModel):
    """The capital of a country."""

    city: str = Field(max_length=20)
    inhabitants: int = Field(ge=0, le=99_000_000)


def weather(city: str) -> str:
    """Tells the weather of a city."""
    return f"It rains in {city}."


def model(platform: Platform, *, chat: bool = True, structured: bool = False) -> OpenAILike:
    return OpenAILike(
        model=platform.model,
        api_base=platform.url,
        api_key=platform.key,
        is_chat_model=chat,
        is_function_calling_model=chat,
        should_use_structured_outputs=structured,
        context_window=2048,
        temperature=0,
        max_tokens=100,
        max_retries=0,
    )


def test_chat_and_stream_chat(platform: Platform) -> None:
    llm = model(platform)
    conversation = [ChatMessage(role="system", content="Be brief."), ChatMessage(role="user", content=QUESTION)]
    answer = llm.chat(conversation).message.content
    assert "Paris" in (answer or "")
    pieces = [piece.delta or "" for piece in llm.stream_chat(conversation)]
    assert len(pieces) > 3
    assert "".join(pieces) == answer


def test_complete(platform: Platform) -> None:
    """As a question to a chat model, and as a text that goes on."""
    assert "Paris" in model(platform).complete(QUESTION).text
    llm = model(platform, chat=False)
    whole = llm.complete("One, two, three,", max_tokens=4).text
    assert "four" in whole
    assert "".join(piece.delta or "" for piece in llm.stream_complete("One, two, three,", max_tokens=4)) == whole


def test_async(platform: Platform) -> None:
    async def ask() -> tuple[str, str]:
        llm = model(platform)
        conversation = [ChatMessage(role="user", content=QUESTION)]
        answer = await llm.achat(conversation)
        pieces = [piece.delta or "" async for piece in await llm.astream_chat(conversation)]
        return answer.message.content or "", "".join(pieces)

    answer, streamed = asyncio.run(ask())
    assert "Paris" in answer
    assert streamed == answer


def test_tools(platform: Platform) -> None:
    llm = model(platform)
    tools = [FunctionTool.from_defaults(weather)]
    answer = llm.chat_with_tools(tools, user_msg="What is the weather in Paris?", tool_required=True)
    (call,) = llm.get_tool_calls_from_response(answer)
    assert call.tool_name == "weather"
    assert set(call.tool_kwargs) == {"city"}
    *_, last = llm.stream_chat_with_tools(tools, user_msg="What is the weather in Paris?", tool_required=True)
    assert [each.tool_name for each in llm.get_tool_calls_from_response(last)] == ["weather"]


def test_structured_output(platform: Platform) -> None:
    """By a call of a tool, and by a schema."""
    prompt = PromptTemplate("What is the capital of {country}?")
    for structured in (False, True):
        answer = model(platform, structured=structured).structured_predict(Capital, prompt, country="France")
        assert isinstance(answer, Capital)
