"""A stand-in for the `llama-server` program: its administration endpoints, no model.

What the model's file is called decides how it behaves: `crash`, `silent`, `memory`; `busy` computes
for three looks at its metrics and then has one queued, `endless` does not end.
It keeps a prompt cache in RAM like the real one: erasing a slot does not empty it.
"""

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ARGS = sys.argv[1:]


def option(name: str, default: str) -> str:
    return ARGS[ARGS.index(name) + 1] if name in ARGS else default


MODEL = Path(option("--model", "")).name
SLOTS: list[list[int] | None] = [None] * int(option("--parallel", "4"))
SAVED = Path(option("--slot-save-path", "."))
COMPUTED: list[int] = []
LOOKS: list[str] = []


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Quiet."""

    def answer(self, body: object, status: int = 200) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        if self.path == "/props":
            self.answer({"total_slots": len(SLOTS), "build_info": "fake"})
        elif self.path == "/slots":
            held = [{} if s is None else {"n_prompt_tokens": len(s)} for s in SLOTS]
            self.answer([{"id": i, "n_ctx": 1024, **h} for i, h in enumerate(held)])
        elif self.path == "/metrics":
            LOOKS.append(self.path)
            busy = "endless" in MODEL or ("busy" in MODEL and len(LOOKS) <= 3)
            queued = "busy" in MODEL and len(LOOKS) == 4
            self.answer(
                f"llamacpp:prompt_tokens_total {sum(COMPUTED)}\n"
                f"llamacpp:requests_processing {int(busy)}\n"
                f"llamacpp:requests_deferred {int(queued)}\n"
            )
        else:
            self.answer({"status": "ok"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/apply-template":
            self.answer({"prompt": "".join(m["content"] for m in body["messages"])})
        elif self.path == "/tokenize":
            self.answer({"tokens": [ord(c) for c in body["content"]]})
        elif self.path == "/completion":
            SLOTS[body["id_slot"]] = body["prompt"]
            COMPUTED.append(len(body["prompt"]))
            self.answer({})
        else:
            self.slot(body)

    def slot(self, body: dict[str, str]) -> None:
        found = re.fullmatch(r"/slots/(\d+)\?action=(\w+)", self.path)
        assert found is not None
        slot, action = int(found[1]), found[2]
        if action == "erase":
            SLOTS[slot] = []
            self.answer({"n_erased": 0})
        elif action == "save":
            (SAVED / body["filename"]).write_text(json.dumps(SLOTS[slot]))
            self.answer({})
        else:
            try:
                tokens = json.loads((SAVED / body["filename"]).read_text())
            except (OSError, ValueError):
                self.answer({"error": {"message": "Unable to restore slot"}}, 400)
                return
            # As in the real one, a slot that never had a task does not tell what it holds.
            SLOTS[slot] = None if SLOTS[slot] is None else tokens
            self.answer({"n_restored": len(tokens)})


def main() -> None:
    print("0.00.001 I srv init: args", json.dumps(ARGS), flush=True)
    if "crash" in MODEL:
        print("0.00.002 E llama_model_load: error loading model: tensor data is cut off")
        sys.exit(1)
    if "memory" in MODEL:
        print("0.00.002 E ggml_backend_cpu: failed to allocate buffer of size 99")
        sys.exit(1)
    server = ThreadingHTTPServer(("127.0.0.1", int(option("--port", "0"))), Handler)
    if "silent" not in MODEL:
        print(
            f"0.00.002 I srv init: listening on http://127.0.0.1:{server.server_port}", flush=True
        )
    server.serve_forever()


main()
