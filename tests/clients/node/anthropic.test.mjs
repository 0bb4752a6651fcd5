// Anthropic's own client for Node against a running Sluice.
import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";

const { SLUICE_BASE_URL, SLUICE_KEY, SLUICE_KEY_BROKE } = process.env;
const SMALL = "sluice-small";
const messages = [{ role: "user", content: "Tell me a story about a fox." }];

/** A client that counts its requests. */
function client(apiKey = SLUICE_KEY, options = {}) {
  const asked = [];
  const counting = async (url, init) => {
    asked.push(String(url));
    return fetch(url, init);
  };
  const made = new Anthropic({ apiKey, baseURL: SLUICE_BASE_URL, maxRetries: 0, timeout: 60_000, fetch: counting, ...options });
  return { anthropic: made, asked };
}

test("a message is answered, with its usage and request id", async () => {
  const { data, request_id } = await client()
    .anthropic.messages.create({ model: SMALL, max_tokens: 8, system: "You tell stories.", messages })
    .withResponse();
  assert.equal(data.type, "message");
  assert.equal(data.role, "assistant");
  assert.ok(data.content[0].text.length > 0);
  assert.ok(["end_turn", "max_tokens"].includes(data.stop_reason));
  assert.ok(data.usage.input_tokens > 0 && data.usage.output_tokens > 0);
  assert.match(request_id, /^req_/);
});

test("a stream's events make the message", async () => {
  const stream = client().anthropic.messages.stream({ model: SMALL, max_tokens: 12, messages });
  const types = new Set();
  let text = "";
  stream.on("streamEvent", (event) => types.add(event.type)).on("text", (piece) => { text += piece; });
  const message = await stream.finalMessage();
  assert.equal(message.content[0].text, text);
  for (const type of ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"]) {
    assert.ok(types.has(type), type);
  }
});

test("tokens are counted as they are charged", async () => {
  const { anthropic } = client();
  const counted = await anthropic.messages.countTokens({ model: SMALL, messages });
  const answered = await anthropic.messages.create({ model: SMALL, max_tokens: 1, messages });
  const { input_tokens, cache_read_input_tokens = 0 } = answered.usage;
  assert.equal(counted.input_tokens, input_tokens + (cache_read_input_tokens ?? 0));
});

test("errors are of their classes", async () => {
  const { anthropic } = client();
  const missing = await anthropic.messages.create({ model: "claude-none", max_tokens: 1, messages }).catch((raised) => raised);
  assert.ok(missing instanceof Anthropic.NotFoundError, String(missing));
  assert.equal(missing.error.error.type, "not_found_error");
  const bad = await anthropic.messages.create({ model: SMALL, max_tokens: 1, temperature: 9, messages }).catch((raised) => raised);
  assert.ok(bad instanceof Anthropic.BadRequestError, String(bad));
  const wrong = await client("sk-sluice-wrong").anthropic.messages.create({ model: SMALL, max_tokens: 1, messages }).catch((raised) => raised);
  assert.ok(wrong instanceof Anthropic.AuthenticationError, String(wrong));
});

test("money that is gone is told once", async () => {
  const { anthropic, asked } = client(SLUICE_KEY_BROKE, { maxRetries: 3 });
  const error = await anthropic.messages.create({ model: SMALL, max_tokens: 4, messages }).catch((raised) => raised);
  assert.ok(error instanceof Anthropic.APIError, String(error));
  assert.equal(asked.length, 1);
});
