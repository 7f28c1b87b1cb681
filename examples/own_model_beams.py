"""Load a model folder of your own, and constrain the beam search of transformers.

The script makes a tiny Llama with random weights and saves it with a tokenizer, as a training script would. The model
knows nothing, so its words are random, but each beam satisfies the constraint.

Run: python examples/own_model_beams.py
"""

import tempfile

from transformers import LlamaConfig, LlamaForCausalLM, set_seed

import structgen as sg
from structgen.integrations.transformers import ConstraintProcessor

set_seed(1)
tokenizer = sg.load().tokenizer  # the tokenizer of the embedded model
size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
with tempfile.TemporaryDirectory() as folder:
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **size)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)  # sg.load needs the tokenizer's files, too
    model = sg.load(folder)

phrase = (
    sg.choice(["A red", "A blue", "A green"])
    + " "
    + sg.choice(["bird", "fish", "fox"])
    + sg.regex(" sings|, 1[0-9]")
)
inputs = tokenizer("Tell me about an animal. ", return_tensors="pt")
output = model.model.generate(
    **inputs,
    logits_processor=[ConstraintProcessor(phrase, model)],
    num_beams=4,
    num_return_sequences=4,
    max_new_tokens=24,
    do_sample=False,
    pad_token_id=tokenizer.eos_token_id,
)
print("Four beams of a random model, each of them a text of the constraint:")
for tokens in output[:, inputs["input_ids"].shape[1] :]:
    print("  " + tokenizer.decode(tokens, skip_special_tokens=True))
