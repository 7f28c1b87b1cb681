"""Extract a typed object from a text, and show it while the model writes it.

The first part prints the partial object each time it grows. The second part handles a list item by item.

Run: python examples/extract_party.py
"""

from pydantic import BaseModel, Field

import structgen as sg


class Guest(BaseModel):
    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=120)


class Party(BaseModel):
    host: str = Field(max_length=20)
    guests: list[Guest] = Field(min_length=2, max_length=2)


model = sg.load()
prompt = "Extract the party from: Ann invites Bob, who is 25, and Eve, who is 47."

print("The object while it grows:")
stream = sg.stream(model, prompt, Party, describe=True, max_tokens=80)
for party in stream:
    mark = "host is final" if stream.is_complete("host") else "host is open"
    print(f"  [{mark}] {party}")

print("The guests, each one finished and validated:")
for guest in sg.stream_items(model, prompt, Party, path="guests", describe=True, max_tokens=80):
    print(f"  {guest.name} is {guest.age} years old.")
