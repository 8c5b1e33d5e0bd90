"""A reference decoder in plain float64 NumPy, from the models' definitions; it shares no code with the engine."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def reference_logits(
    config: Mapping[str, object], weights: Mapping[str, npt.NDArray[np.float32]], token_ids: Sequence[int]
) -> Array:
    """Logits [tokens, vocab] after each token of one sequence. `config` is that of a config.json."""
    return _Reference(config, weights).run(token_ids)


class _Reference:
    def __init__(self, config: Mapping[str, object], weights: Mapping[str, npt.NDArray[np.float32]]) -> None:
        self._config = config
        self._weights = {name: value.astype(np.float64) for name, value in weights.items()}
        self._heads = int(config["num_attention_heads"])
        self._kv_heads = int(config["num_key_value_heads"])
        self._size = int(config["head_dim"])

    def run(self, token_ids: Sequence[int]) -> Array:
        table = self._weights["model.embed_tokens.weight"]
        hidden = table[list(token_ids)]
        for layer in range(int(self._config["num_hidden_layers"])):
            prefix = f"model.layers.{layer}."
            hidden = hidden + self._attention(prefix, self._norm(prefix + "input_layernorm", hidden))
            normed = self._norm(prefix + "post_attention_layernorm", hidden)
            gate = self._linear(prefix + "mlp.gate_proj", normed)
            up = self._linear(prefix + "mlp.up_proj", normed)
            hidden = hidden + self._linear(prefix + "mlp.down_proj", gate / (1 + np.exp(-gate)) * up)
        head = table if self._config["tie_word_embeddings"] else self._weights["lm_head.weight"]
        return self._norm("model.norm", hidden) @ head.T

    def _attention(self, prefix: str, hidden: Array) -> Array:
        count = len(hidden)
        query = self._linear(prefix + "self_attn.q_proj", hidden).reshape(count, self._heads, self._size)
        key = self._linear(prefix + "self_attn.k_proj", hidden).reshape(count, self._kv_heads, self._size)
        value = self._linear(prefix + "self_attn.v_proj", hidden).reshape(count, self._kv_heads, self._size)
        if self._config["model_type"] == "qwen3":
            query = self._norm(prefix + "self_attn.q_norm", query)
            key = self._norm(prefix + "self_attn.k_norm", key)
        query, key = self._rotate(query), self._rotate(key)
        output = np.zeros((count, self._heads, self._size))
        for head in range(self._heads):
            shared = head // (self._heads // self._kv_heads)
            for row in range(count):
                scores = key[: row + 1, shared] @ query[row, head] / np.sqrt(self._size)
                odds = np.exp(scores - scores.max())
                output[row, head] = odds / odds.sum() @ value[: row + 1, shared]
        return self._linear(prefix + "self_attn.o_proj", output.reshape(count, -1))

    def _rotate(self, states: Array) -> Array:
        """Pair i of a head is its elements i and i + half, turned by position * frequency i."""
        half = self._size // 2
        angles = np.arange(len(states))[:, None, None] * np.array([self._frequency(i) for i in range(half)])
        first, second = states[..., :half], states[..., half:]
        return np.concatenate(
            [first * np.cos(angles) - second * np.sin(angles), second * np.cos(angles) + first * np.sin(angles)],
            axis=-1,
        )

    def _frequency(self, pair: int) -> float:
        frequency = float(self._config["rope_theta"]) ** (-2 * pair / self._size)
        scaling = self._config.get("rope_scaling")
        if not isinstance(scaling, dict):
            return frequency
        if scaling["rope_type"] == "linear":
            return frequency / scaling["factor"]
        wavelength = 2 * np.pi / frequency
        window = scaling["original_max_position_embeddings"]
        if wavelength < window / scaling["high_freq_factor"]:
            return frequency
        if wavelength > window / scaling["low_freq_factor"]:
            return frequency / scaling["factor"]
        smooth = (window / wavelength - scaling["low_freq_factor"]) / (
            scaling["high_freq_factor"] - scaling["low_freq_factor"]
        )
        return (1 - smooth) * frequency / scaling["factor"] + smooth * frequency

    def _linear(self, name: str, hidden: Array) -> Array:
        # Not `@`: its threads would contend with those of the runtime under test.
        product = np.einsum("ti,oi->to", hidden, self._weights[name + ".weight"])
        return product + self._weights[name + ".bias"] if name + ".bias" in self._weights else product

    def _norm(self, name: str, hidden: Array) -> Array:
        mean_square = (hidden**2).mean(axis=-1, keepdims=True)
        return hidden / np.sqrt(mean_square + float(self._config["rms_norm_eps"])) * self._weights[name + ".weight"]
