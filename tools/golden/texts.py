"""Texts that tokenizers and short-sentence models get wrong first; used when no other texts are given."""

HARD = ["", " ", "   ", "\t", "\n", " \n\t ", "a", "A", "ß", "Ä Ö Ü ä ö ü ß ẞ", "Hello world!", "hello WORLD HeLLo", "  leading and trailing spaces  ",
        "tabs\tand\nnew lines\r\nand more", "two  spaces   three", "emoji 😀 👍🏽 👩‍👩‍👧 🇩🇪", "中文分词测试", "日本語のテキスト", "한국어 텍스트", "mixed 中文 and English文字",
        "Привет, мир", "Ελληνικά", "שלום עולם", "مرحبا بالعالم", "ภาษาไทย", "cafe\u0301 re\u0301sume\u0301 (combining)", "café résumé (composed)",
        "A\u030angstro\u0308m n\u0303", "ﬁ ﬂ ligatures ½ ² ™ Ⅷ ①", "ｆｕｌｌｗｉｄｔｈ ＡＢＣ １２３", "x" * 120, "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
        "supercalifragilisticexpialidocious" * 4, "control \x01\x02\x1f chars \x7f end", "null\x00byte", "zero\u200bwidth \u200djoiner \ufeffbom", "soft\u00adhyphen", "nbsp\u00a0here \u2003em space \u3000ideographic",
        "</s>", "a </s> b", "<unk>", "<pad>", "text<pad>text", "<s>", "[CLS] [SEP] [MASK] [PAD] [UNK]", "a[MASK]b", "[mask]", "<|endoftext|>", "one<|endoftext|>two", "<|endoftext|><|endoftext|>", "<| endoftext |>",
        ">>de<< Hello", ">>deu<<Hello world", "https://www.debian.org/doc/manuals/debian-faq/?q=a&b=c#frag", "user@example.org", "C:\\Windows\\System32\\drivers", "/usr/share/doc/apt/README.md.gz",
        "1234567890", "3.14159 1,000,000.50 1e-10 0xDEADBEEF", "2024-02-29T12:34:56Z", "v1.2.3-rc4+dfsg-1~deb12u1", "$HOME ${PATH} $(ls -l) `id`", "a=b; c+=d*e/f%g^h&i|j!k~l", "\"double\" 'single' „deutsch“ »guillemets« ‘a’ “b”",
        "don't can't won't I'm you're they've he'll she'd it's", "DON'T CAN'T", "well-known state-of-the-art -- dash – en — em … ...", "???!!!...,,,;;;", "(((nested [brackets] {braces} <angles>)))",
        "ALL CAPS SENTENCE WITH ACRONYMS LIKE HTTP, SQL AND GPU.", "camelCaseIdentifier snake_case_identifier kebab-case-identifier SCREAMING_SNAKE", "#include <stdio.h>\nint main(void) { return 0; }\n",
        "{\"key\": [1, 2, {\"a\": null}]}", "<html><body class=\"x\">Hi</body></html>", "▁ underscore-like ▁▁ piece marker", "Ġ Ċ byte-level markers", "##ing ##s", "é" * 30, "🙂" * 10, "\ud7ff\ue000 edges", "1 + 1 = 2 ≠ 3 ≤ 4 × 5 ÷ 6 → ∞",
        "İstanbul ı I i dotless", "ΑΒΓ ς σ Σ", "ǅ ǆ titlecase", "naïve coöperate façade Ñandú Øre Łódź Česky"]

HAND = ["Hello world!", "Good morning, how are you?", "Hello", "", "a", "I", "Yes", "The quick brown fox jumps over the lazy dog.", "This package contains the documentation.", "this is written without capitals or a full stop",
        "THE FILE COULD NOT BE OPENED.", "Open the file, change the first line and save it.", "Do you want to delete all messages in this folder?", "The server is running on port 8080.", "Could not connect to %s: %s",
        "Please enter your password.", "The weather is nice today. We are going for a walk in the park. Would you like to come with us?", "Version 2.5.1 was released on 14 March 2021 and fixes 37 bugs.",
        "See https://www.debian.org/ for more information.", "Emoji 😀 are unknown to this model.", "Naïve café owners in Zürich ate crème brûlée.", "She said: \"I have never seen such a large mouse!\"", "1234567890", "one two three four five six seven eight nine ten",
        "test test test test test test test test test test test test", "-", "...", "What time is it?", "A small, fast and secure web browser for the desktop.", "Click the button to start the game, then press any key to continue.",
        "The compiler reads the source code and creates a program that can run on the computer. If there is an error in the source code, the compiler prints a message with the number of the line. The programmer then corrects the error and starts the compiler again. "
        "This can be repeated until the program works. Some compilers can also print warnings about parts of the code that look wrong but are allowed."]
