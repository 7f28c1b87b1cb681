"""Let the model call three tools, and get a typed final answer.

One tool raises an exception: the model sees the error, and the loop goes on. One tool is async. The formulas in `order`
make the model call all three tools before it answers.

Run: python examples/tool_loop.py
"""

import asyncio
from typing import Annotated, Literal

from pydantic import BaseModel, Field

import structgen as sg

City = Literal["Paris", "Oslo"]


def temperature(city: City) -> str:
    """Tell the temperature in a city."""
    return f"21 degrees in {city}"


def flights(city: City) -> str:
    """List the flights to a city."""
    raise ConnectionError("the airline does not answer")


async def wind(city: City) -> dict[str, float]:
    """Look up the wind speed in a city."""
    await asyncio.sleep(0.01)
    return {"speed": 12.5}


class Report(BaseModel):
    city: City
    degrees: Annotated[int, Field(ge=-40, le=50)]


conversation = sg.run_tools(
    sg.load(),
    "Can I fly to Paris, and how is the weather there?",
    [temperature, flights, wind],
    order=["F temperature", "F flights", "F wind"],  # each tool is called at some point
    tool_choice="required",
    max_calls=3,
    max_rounds=1,
    describe=False,  # short prompt; a larger model profits from the description of its tools
    answer=Report,
    max_tokens=200,
    seed=1,
)
for result in conversation.results:
    print(f"{result.call.name}({result.call.arguments}) -> {result.value or result.error!r}")
print("answer:", conversation.value)
