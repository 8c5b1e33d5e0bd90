"""LangChain's client of OpenAI's API."""

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

from tests.clients.conftest import Platform

QUESTION = "What is the capital of France?"
APIS = pytest.mark.parametrize("responses", [False, True], ids=["chat", "responses"])


class Capital(BaseModel):
    """The capital of a country."""

    city: str = Field(max_length=20)
    inhabitants: int = Field(ge=0, le=99_000_000)


@tool
def weather(city: str) -> str:
    """Tells the weather of a city."""
    return f"It rains in {city}."


def model(platform: Platform, *, responses: bool = False, max_tokens: int = 100, **more: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model=platform.model,
        base_url=platform.url,
        api_key=platform.key,  # pyright: ignore[reportArgumentType]
        temperature=0,
        max_tokens=max_tokens,  # pyright: ignore[reportCallIssue]
        max_retries=0,
        use_responses_api=responses,
        **more,
    )


@APIS
def test_invoke_and_stream(platform: Platform, responses: bool) -> None:
    llm = model(platform, responses=responses)
    conversation = [SystemMessage("Be brief."), HumanMessage(QUESTION)]
    answer = llm.invoke(conversation)
    assert "Paris" in answer.text
    assert isinstance(answer, AIMessage)
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] > 0
    chunks = list(llm.stream(conversation))
    assert len(chunks) > 3
    assert "".join(chunk.text for chunk in chunks) == answer.text


def test_async(platform: Platform) -> None:
    """Both in one event loop, as LangChain keeps its connections for the next model, whichever loop that is in."""

    async def ask(responses: bool) -> tuple[str, str, list[str]]:
        llm = model(platform, responses=responses)
        answer = await llm.ainvoke(QUESTION)
        streamed = [chunk.text async for chunk in llm.astream(QUESTION)]
        both = await llm.abatch([QUESTION, "Say hello."])
        return answer.text, "".join(streamed), [each.text for each in both]

    async def ask_both() -> list[tuple[str, str, list[str]]]:
        return [await ask(responses) for responses in (False, True)]

    for answer, streamed, both in asyncio.run(ask_both()):
        assert "Paris" in answer
        assert streamed == both[0] == answer


@APIS
@pytest.mark.parametrize("choice", ["required", "weather"])
def test_tools(platform: Platform, responses: bool, choice: str) -> None:
    llm = model(platform, responses=responses).bind_tools([weather], tool_choice=choice, parallel_tool_calls=False)
    question = HumanMessage("What is the weather in Paris?")
    answer = llm.invoke([question])
    assert isinstance(answer, AIMessage)
    (call,) = answer.tool_calls
    assert call["name"] == "weather"
    assert set(call["args"]) == {"city"}
    result = weather.invoke(call)
    assert isinstance(result, ToolMessage)
    final = model(platform, responses=responses).bind_tools([weather], tool_choice="none")
    assert final.invoke([question, answer, result]).text


@APIS
def test_tools_streamed(platform: Platform, responses: bool) -> None:
    llm = model(platform, responses=responses).bind_tools([weather], tool_choice="weather")
    chunks = list(llm.stream("What is the weather in Paris?"))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert isinstance(whole, AIMessage)
    assert [call["name"] for call in whole.tool_calls] == ["weather"]
    assert set(whole.tool_calls[0]["args"]) == {"city"}


@APIS
@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_structured_output(platform: Platform, responses: bool, method: Any) -> None:
    llm = model(platform, responses=responses).with_structured_output(Capital, method=method, include_raw=True)
    answer = llm.invoke(f"{QUESTION} Answer in JSON with the fields city and inhabitants.")
    assert isinstance(answer, dict)
    if method == "json_mode":
        assert answer["raw"].text.lstrip().startswith("{")  # which fields it has is the model's affair
    else:
        assert isinstance(answer["parsed"], Capital), answer


def test_log_probabilities(platform: Platform) -> None:
    answer = model(platform, max_tokens=3, logprobs=True, top_logprobs=2).invoke(QUESTION)
    content = answer.response_metadata["logprobs"]["content"]
    assert "".join(each["token"] for each in content) == answer.text
    assert {len(each["top_logprobs"]) for each in content} == {2}
