"""Start the OpenAI-compatible server, and request a typed answer with the official client.

On the command line the server is `structgen serve`. Here it runs in a thread of this process, so that one command shows
both sides.

Run: python examples/serve_and_ask.py    (needs: in the folder of the repository, pip install '.[server]' openai)
"""

import socket
import threading

import uvicorn
from openai import BadRequestError, OpenAI
from pydantic import BaseModel, Field

import structgen as sg
from structgen.server.app import make_app
from structgen.server.service import Service
from structgen.server.settings import ServerSettings


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=120)


listener = socket.create_server(("127.0.0.1", 0))  # any free port
app = make_app(Service(sg.load(), ServerSettings(model_name="smollm2")))
server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
thread.start()
try:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    with OpenAI(base_url=url, api_key="none") as client:
        print(f"{url} serves {[model.id for model in client.models.list()]}")
        question = [{"role": "user", "content": "Extract the person: Ann is 31 years old."}]
        answer = client.chat.completions.parse(
            model="smollm2", messages=question, response_format=Person, temperature=0, max_tokens=40
        )
        print("a typed answer:", repr(answer.choices[0].message.parsed))
        answer = client.chat.completions.create(
            model="smollm2",
            messages=[{"role": "user", "content": "Is the sky blue?"}],
            extra_body={"structured_outputs": {"choice": ["yes", "no"]}},
            temperature=0,
        )
        print("a choice:      ", answer.choices[0].message.content)
        try:
            client.chat.completions.create(model="smollm2", messages=question, frequency_penalty=1)
        except BadRequestError as error:
            print("a refusal:     ", error.body["message"])
finally:
    server.should_exit = True
    thread.join()
