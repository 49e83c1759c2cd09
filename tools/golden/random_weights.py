"""Random weights for tiny checkpoints, large enough that logits are well spread."""

import json

import torch


@torch.no_grad()
def randomize(model, config, favours_end=True):
    """Draws all weights of a model from torch's generator; favours_end: answers end at different lengths."""
    for name, parameter in model.named_parameters():
        if "embed_positions" in name and config.model_type in ("marian", "pegasus"):
            continue  # sinusoids
        # Gemma stores what a gain has above 1.
        is_norm_gain = parameter.ndim == 1 and name.endswith("weight") and not config.model_type.startswith("gemma")
        parameter.data = torch.randn(parameter.shape) * 0.2 + (1.0 if is_norm_gain else 0.0)
    if config.model_type in ("t5", "mt5"):  # whose embeddings are as large as what they are added to
        model.shared.weight *= 5.0
        for stack in (model.encoder, model.decoder):
            stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight *= 5.0
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape) * 0.2)
    if config.model_type == "mpnet":
        model.base_model.encoder.relative_attention_bias.weight *= 5.0
    model.tie_weights()
    if config.model_type == "t5" and not config.scale_decoder_outputs:
        model.lm_head.weight = torch.nn.Parameter(torch.randn(model.lm_head.weight.shape) * 0.2)
    if favours_end:
        favour_end_token(model, config)


def favour_end_token(model, config):
    """Lifts the end token's logit."""
    spread = 0.2 * config.hidden_size**0.5  # standard deviation of a logit
    if hasattr(model, "final_logits_bias"):
        lift = {"mbart": 1.5, "pegasus": 4.5}.get(config.model_type, 2.5)
        model.final_logits_bias[0, config.eos_token_id] += lift * spread
    elif config.model_type == "gpt2":
        transformer = getattr(model, "transformer", model)
        head = getattr(model, "lm_head", transformer.wte)
        bias = transformer.ln_f.bias
        head.weight[config.eos_token_id] += spread * bias / bias.dot(bias)
    elif config.model_type == "m2m_100" and not config.tie_word_embeddings:
        bias = model.model.decoder.layer_norm.bias
        model.lm_head.weight[config.eos_token_id] += spread * bias / bias.dot(bias)
    elif config.model_type in ("t5", "mt5"):
        model.lm_head.weight[config.eos_token_id] *= 3.0
    elif model.can_generate() and not config.is_encoder_decoder:  # a last norm may have no bias: a logit that varies more is the largest more often
        model.get_output_embeddings().weight[config.eos_token_id] *= 2.0


def edit_json(path, **fields):
    with open(path, encoding="utf-8") as file:
        content = {name: value for name, value in {**json.load(file), **fields}.items() if value is not None or name not in fields}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=2)
        file.write("\n")
