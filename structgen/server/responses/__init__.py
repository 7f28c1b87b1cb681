"""OpenAI's endpoint /v1/responses: its requests, its response objects and its events.

A request is read into the same `CompletionRequest` as a chat, so both run in the same way. Nothing is stored.
Source: https://platform.openai.com/docs/api-reference/responses
"""
