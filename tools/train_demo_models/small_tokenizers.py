"""Tokenizers of the small models, trained on the text that their data scripts draw: byte-level BPE for chat-en, WordPiece for the two encoders."""

import json
import os

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

END_OF_TEXT, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{% endfor %}"
                 "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
# Words with the space in front of them, single digits, and signs: sums are read digit by digit.
PIECES = r"""'(?:s|t|m|re|ve|ll|d)| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def write_json(folder, name, value):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")


def rendered(messages):
    """What the chat template makes of a conversation with its answers."""
    return "".join(f"{START}{message['role']}\n{message['content']}{END}\n" for message in messages)


def train_chat(texts, size):
    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PIECES), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, special_tokens=[END_OF_TEXT, START, END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                        show_progress=False))
    return made


def save_chat(made, folder, positions):
    os.makedirs(folder, exist_ok=True)
    made.save(os.path.join(folder, "tokenizer.json"), pretty=False)
    write_json(folder, "tokenizer_config.json", {
        "add_bos_token": False, "add_prefix_space": False, "chat_template": CHAT_TEMPLATE, "clean_up_tokenization_spaces": False, "eos_token": END, "pad_token": END_OF_TEXT,
        "additional_special_tokens": [START], "model_max_length": positions, "tokenizer_class": "PreTrainedTokenizerFast"})


def train_word_pieces(texts, size, lowercase):
    made = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    made.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(i) for i in range(33, 127)]
    made.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, initial_alphabet=letters, show_progress=False))
    # Every letter and digit also goes on within a word, so that a new name is cut into letters and is not [UNK].
    vocab = sorted(made.get_vocab(), key=made.get_vocab().get)
    inner = ["##" + letter for letter in letters if letter.isalnum() and not (lowercase and letter.isupper()) and "##" + letter not in vocab]
    words = vocab[:size - len(inner)] + inner
    made.model = models.WordPiece(vocab={word: i for i, word in enumerate(words)}, unk_token="[UNK]", max_input_chars_per_word=100)
    made.add_special_tokens([AddedToken(word, special=True) for word in special])
    made.decoder = decoders.WordPiece()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return made


def save_word_pieces(made, folder, positions, lowercase):
    os.makedirs(folder, exist_ok=True)
    made.no_padding()
    made.no_truncation()
    made.save(os.path.join(folder, "tokenizer.json"), pretty=False)
    names = {"cls_token": "[CLS]", "mask_token": "[MASK]", "pad_token": "[PAD]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    write_json(folder, "tokenizer_config.json", {"do_lower_case": lowercase, **names, "model_max_length": positions, "strip_accents": None, "tokenize_chinese_chars": True,
                                                 "tokenizer_class": "BertTokenizer"})
    write_json(folder, "special_tokens_map.json", names)
    vocab = made.get_vocab()
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.writelines(word + "\n" for word in sorted(vocab, key=vocab.get))
