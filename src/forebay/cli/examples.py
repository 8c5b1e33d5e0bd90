"""How a server that was just started can be called, to be pasted into a terminal or an editor."""

import json
import shlex
from dataclasses import dataclass

QUESTION = "What is a forebay?"
MAX_TOKENS = 100


@dataclass(frozen=True, slots=True)
class CallExample:
    """`url` is the server's, without `/v1`; `model` a name that callers may use. `key_variable` names the environment
    variable that has the key; without it, `key` is the key itself, and without both none is needed.
    """

    url: str
    model: str
    key: str | None = None
    key_variable: str | None = None

    def curl(self, *, chat: bool = True) -> str:
        """One line of shell."""
        path = "chat/completions" if chat else "completions"
        asked = {"messages": [{"role": "user", "content": QUESTION}]} if chat else {"prompt": QUESTION}
        body = json.dumps({"model": self.model, **asked, "max_tokens": MAX_TOKENS}, ensure_ascii=False)
        key = f"${self.key_variable}" if self.key_variable else self.key
        authorization = f'-H "Authorization: Bearer {key}" ' if key else ""
        return f'curl {self.url}/v1/{path} {authorization}-H "Content-Type: application/json" -d {shlex.quote(body)}'

    def python(self) -> str:
        """A whole program over OpenAI's client."""
        key = f"os.environ[{json.dumps(self.key_variable)}]" if self.key_variable else json.dumps(self.key or "unused")
        messages = json.dumps([{"role": "user", "content": QUESTION}])
        lines = ["import os", ""] if self.key_variable else []
        lines += [
            "from openai import OpenAI  # pip install openai",
            "",
            f'client = OpenAI(base_url="{self.url}/v1", api_key={key})',
            f"messages = {messages}",
            "answer = client.chat.completions.create("
            f"model={json.dumps(self.model)}, messages=messages, max_tokens={MAX_TOKENS})",
            "print(answer.choices[0].message.content)",
        ]
        return "\n".join(lines)
