"""A conversation as the text the model sees, cut in pieces that are learned or only read.

It says in Python what chat_template.jinja says (evaluate.py checks that both agree): earlier answers
stand without thoughts, the last one has its thought or, with thinking off, an empty think block.
"""

import json

TOOLS_HEAD = (
    "# Tools\nCall a function by writing its name and arguments as JSON inside "
    "<tool_call></tool_call>.\n<tools>\n"
)
NO_THOUGHT = "<think>\n\n</think>\n\n"


def _system(doc):
    first = doc.messages[0]
    text = first["content"] if first["role"] == "system" else ""
    if doc.tools:
        listed = "".join(json.dumps(tool, ensure_ascii=False) + "\n" for tool in doc.tools)
        text = (text + "\n\n" if text else "") + TOOLS_HEAD + listed + "</tools>"
    return f"<|im_start|>system\n{text}<|im_end|>\n" if text else ""


def prompt_text(doc, think):
    """Everything up to where the last answer begins."""
    text = _system(doc)
    for message in doc.messages[:-1]:
        role, content = message["role"], message["content"]
        if role == "tool":
            text += f"<|im_start|>user\n<tool_response>\n{content}\n</tool_response><|im_end|>\n"
        elif role != "system":
            text += f"<|im_start|>{role}\n{content}<|im_end|>\n"
    return text + "<|im_start|>assistant\n" + ("" if think else NO_THOUGHT)


def training_pieces(doc, think, cut=None):
    """[(text, learned)] of a whole document, ending with <|endoftext|>.

    The first token of an earlier answer is not learned: there the answer stands where, at run time,
    a think block would begin. `cut` shortens the thought to that many characters, as a thinking
    budget does; the cut thought is then only read, so that nobody learns to stop there.
    """
    if doc.messages[0]["role"] == "plain":
        return [(doc.messages[0]["content"], "all"), ("<|endoftext|>", "all")]
    pieces = [(_system(doc), "no")]
    for message in doc.messages[:-1]:
        role, content = message["role"], message["content"]
        if role == "assistant":
            pieces += [
                ("<|im_start|>assistant\n", "no"),
                (content + "<|im_end|>", "but first"),
                ("\n", "no"),
            ]
        elif role == "tool":
            pieces.append(
                (
                    f"<|im_start|>user\n<tool_response>\n{content}\n</tool_response><|im_end|>\n",
                    "no",
                )
            )
        elif role == "user":
            pieces.append((f"<|im_start|>user\n{content}<|im_end|>\n", "some"))
    answer = doc.messages[-1]["content"] + "<|im_end|>"
    pieces.append(("<|im_start|>assistant\n", "no"))
    if not think:
        pieces.append((NO_THOUGHT, "no"))
    elif cut is None:
        pieces.append((f"<think>\n{doc.thought}\n</think>\n\n", "all"))
    else:
        pieces.append((f"<think>\n{doc.thought[:cut]}\n</think>\n\n", "no"))
    return pieces + [(answer, "all"), ("\n", "no"), ("<|endoftext|>", "no")]
