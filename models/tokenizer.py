"""The tokenizer both models share: byte-level BPE, so every string of UTF-8 comes back as it was.

It owns the special tokens and the chat template. It adds no token by itself: the begin token is
written by the template.
"""

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

VOCABULARY_SIZE = 2048
CONTEXT_TOKENS = 4096
PAD, BEGIN, END = "<|pad|>", "<|begin|>", "<|end|>"
SYSTEM, USER, ASSISTANT = "<|system|>", "<|user|>", "<|assistant|>"
SPECIAL = (PAD, BEGIN, END, SYSTEM, USER, ASSISTANT)

TOOLS_HEAD = "You can call functions. Each is given as JSON:\n<tools>\n"
TOOLS_FOOT = (
    "</tools>\nTo call one, write its name and its arguments as JSON:\n<tool_call>\n"
    '{"name": "...", "arguments": {...}}\n</tool_call>'
)
RESULT_HEAD, RESULT_FOOT = "<tool_response>\n", "\n</tool_response>"

CHAT_TEMPLATE = """\
{{- bos_token -}}
{%- if tools -%}
{{- '<|system|>You can call functions. Each is given as JSON:\\n<tools>\\n' -}}
{%- for tool in tools -%}{{- tool | tojson -}}{{- '\\n' -}}{%- endfor -%}
{{- '</tools>\\nTo call one, write its name and its arguments as JSON:\\n<tool_call>\\n' -}}
{{- '{"name": "...", "arguments": {...}}\\n</tool_call>' -}}{{- eos_token -}}
{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}{{- '<|assistant|>' -}}
{%- elif message.role in ['system', 'developer'] -%}{{- '<|system|>' -}}
{%- else -%}{{- '<|user|>' -}}
{%- endif -%}
{%- if message.role == 'tool' -%}{{- '<tool_response>\\n' -}}{%- endif -%}
{%- if message.content is string -%}{{- message.content | trim -}}
{%- elif message.content -%}
{%- for part in message.content if part.type == 'text' -%}{{- part.text | trim -}}{%- endfor -%}
{%- endif -%}
{%- if message.role == 'tool' -%}{{- '\\n</tool_response>' -}}{%- endif -%}
{%- for call in message.tool_calls or [] -%}
{%- if not loop.first or message.content -%}{{- '\\n' -}}{%- endif -%}
{{- '<tool_call>\\n{"name": ' -}}{{- call.function.name | tojson -}}{{- ', "arguments": ' -}}
{%- if call.function.arguments is string -%}{{- call.function.arguments -}}
{%- else -%}{{- call.function.arguments | tojson -}}
{%- endif -%}
{{- '}\\n</tool_call>' -}}
{%- endfor -%}
{{- eos_token -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}
"""


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=list(SPECIAL),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=PAD,
        extra_special_tokens=[SYSTEM, USER, ASSISTANT],
        chat_template=CHAT_TEMPLATE,
        model_max_length=CONTEXT_TOKENS,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
