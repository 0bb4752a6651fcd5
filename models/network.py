"""A `Size` as an ordinary Llama network of the transformers library."""

from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from models.sizes import Size
from models.tokenizer import CONTEXT_TOKENS


def build_network(size: Size, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    ends = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        intermediate_size=size.feed_forward,
        num_attention_heads=size.heads,
        num_key_value_heads=size.key_value_heads,
        max_position_embeddings=CONTEXT_TOKENS,
        tie_word_embeddings=True,
        rms_norm_eps=1e-5,
        **ends,
    )
    network = LlamaForCausalLM(config)
    network.generation_config = GenerationConfig(**ends)
    return network


def parameter_count(network: LlamaForCausalLM) -> int:
    return sum(parameter.numel() for parameter in network.parameters())
