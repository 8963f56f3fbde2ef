"""Random messages and tools for fuzz_templates.py."""

from template_values import KEYS, WORDS, Values


class Chats(Values):
    def content(self):
        r = self.rng
        if r.random() < 0.12:
            return [
                {"type": "text", "text": "".join(r.choice(WORDS) for _ in range(2))}
                for _ in range(r.randint(1, 3))
            ]
        if r.random() < 0.1:
            return "<think>\n" + r.choice(WORDS) + "\n</think>\n\n" + r.choice(WORDS)
        if r.random() < 0.05:
            return "<tool_response>\n" + r.choice(WORDS) + "\n</tool_response>"
        return "".join(r.choice(WORDS) for _ in range(r.randint(0, 5)))

    def tool_call(self):
        r = self.rng
        arguments = {r.choice(KEYS): self.value(1) for _ in range(r.randint(0, 3))}
        if r.random() < 0.2:
            arguments = '{"a": 1}'
        function = {"name": r.choice(["get_weather", "f", "日"]), "arguments": arguments}
        if r.random() < 0.15:
            return function
        return {"id": "call_%05d" % r.randint(0, 99999), "type": "function", "function": function}

    def message(self, role):
        r = self.rng
        message = {"role": role, "content": self.content()}
        if role == "assistant":
            if r.random() < 0.3:
                message["tool_calls"] = [self.tool_call() for _ in range(r.randint(1, 2))]
                if r.random() < 0.5:
                    message["content"] = ""
            if r.random() < 0.2:
                message[r.choice(["reasoning_content", "reasoning", "thinking"])] = r.choice(WORDS)
        if role == "tool":
            message |= r.choice([{}, {"tool_call_id": "call_00001"}, {"name": "get_weather"}])
            if r.random() < 0.2:
                message["content"] = self.value(1) if self.value(1) is not None else ""
                if message["content"] is None:
                    message["content"] = ""
        if r.random() < 0.05:
            message[r.choice(["name", "extra", "tool_calls", "thinking"])] = None
        return message

    def messages(self):
        r = self.rng
        roles = ["system"] if r.random() < 0.4 else []
        if r.random() < 0.8:  # turns as templates expect them
            for _ in range(r.randint(1, 4)):
                roles += ["user"] + r.choice(
                    [
                        ["assistant"],
                        ["assistant"],
                        ["assistant", "tool", "assistant"],
                        ["assistant", "tool", "tool", "assistant"],
                        [],
                    ]
                )
            if r.random() < 0.5 and roles[-1] == "assistant":
                roles.pop()
        else:
            roles += [
                r.choice(["user", "assistant", "system", "tool", "developer", "ipython"])
                for _ in range(r.randint(1, 5))
            ]
        return [self.message(role) for role in roles or ["user"]]

    def tools(self):
        r = self.rng
        if r.random() < 0.6:
            return None
        tools = []
        for _ in range(r.randint(0 if r.random() < 0.1 else 1, 2)):
            properties = {
                k: {
                    "type": r.choice(["string", "integer", ["string", "null"], "array"]),
                    "description": r.choice(WORDS),
                }
                | r.choice(
                    [
                        {},
                        {"enum": ["a", "b"]},
                        {"default": self.value(2)},
                        {"items": {"type": "string"}},
                    ]
                )
                for k in r.sample(KEYS, r.randint(0, 3))
            }
            function = {
                "name": r.choice(["get_weather", "f"]),
                "description": "".join(r.choice(WORDS) for _ in range(3)),
                "parameters": {
                    "type": "object",
                    "properties": properties,
                    "required": list(properties)[:1],
                },
            }
            if r.random() < 0.2:
                function["return"] = {"type": "string"}
            tools.append({"type": "function", "function": function})
        return tools
