// OpenAI's own client for Node against a running Sluice; the variables say where it is and which keys it takes.
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";

const { SLUICE_BASE_URL, SLUICE_KEY, SLUICE_KEY_LIMITED, SLUICE_KEY_BROKE } = process.env;
const SMALL = "sluice-small";
const messages = [{ role: "user", content: "Tell me a story about a fox." }];

/** A client that counts its requests. */
function client(apiKey = SLUICE_KEY, options = {}) {
  const asked = [];
  const counting = async (url, init) => {
    asked.push(String(url));
    return fetch(url, init);
  };
  const made = new OpenAI({ apiKey, baseURL: `${SLUICE_BASE_URL}/v1`, maxRetries: 0, timeout: 60_000, fetch: counting, ...options });
  return { openai: made, asked };
}

test("a whole answer has its text, usage and request id", async () => {
  const { data, response, request_id } = await client()
    .openai.chat.completions.create({ model: SMALL, messages, max_tokens: 8 })
    .withResponse();
  assert.equal(data.object, "chat.completion");
  assert.ok(data.choices[0].message.content.length > 0);
  assert.equal(data.usage.total_tokens, data.usage.prompt_tokens + data.usage.completion_tokens);
  assert.match(request_id, /^req_/);
  assert.equal(response.headers.get("x-sluice-cost-usd"), data.usage.cost);
  assert.ok(Number(response.headers.get("openai-processing-ms")) >= 0);
});

test("a stream joins to its text and ends with its usage", async () => {
  const stream = await client().openai.chat.completions.create({
    model: SMALL, messages, max_tokens: 12, stream: true, stream_options: { include_usage: true },
  });
  let text = "", finish = null, usage = null;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    finish ??= chunk.choices[0]?.finish_reason ?? null;
    usage = chunk.usage ?? usage;
  }
  assert.ok(text.length > 0);
  assert.ok(["stop", "length"].includes(finish));
  assert.ok(usage.completion_tokens > 0 && usage.completion_tokens <= 12);
});

test("the stream helper makes one completion of it", async () => {
  const runner = client().openai.chat.completions.stream({ model: SMALL, messages, max_tokens: 12 });
  const completion = await runner.finalChatCompletion();
  assert.equal(completion.choices[0].message.role, "assistant");
  assert.ok(completion.choices[0].message.content.length > 0);
});

test("a stream that its reader leaves ends without an error", async () => {
  const stream = await client().openai.chat.completions.create({ model: SMALL, messages, max_tokens: 200, stream: true });
  for await (const chunk of stream) {
    assert.equal(chunk.object, "chat.completion.chunk");
    break;
  }
  assert.ok(stream.controller.signal.aborted);
});

const weather = {
  type: "function",
  function: {
    name: "weather",
    strict: true,
    parameters: {
      type: "object",
      properties: { town: { enum: ["Ulm", "Bonn"] }, days: { type: "integer", minimum: 1, maximum: 14 } },
      required: ["town", "days"],
      additionalProperties: false,
    },
  },
};

test("a tool is called with arguments that fit, whole and streamed", async () => {
  const wanted = { model: SMALL, messages, tools: [weather], tool_choice: { type: "function", function: { name: "weather" } } };
  const whole = await client().openai.chat.completions.create(wanted);
  const streamed = await client().openai.chat.completions.stream(wanted).finalChatCompletion();
  for (const { choices: [choice] } of [whole, streamed]) {
    assert.equal(choice.finish_reason, "tool_calls");
    const [call] = choice.message.tool_calls;
    const { town, days } = JSON.parse(call.function.arguments);
    assert.ok(["Ulm", "Bonn"].includes(town) && days >= 1 && days <= 14);
  }
});

// The helper throws where a strict tool was offered and the answer is cut.
const lax = [{ type: "function", function: { ...weather.function, strict: false } }];
for (const [name, fields] of Object.entries({
  named: { tool_choice: { type: "function", function: { name: "weather" } } },
  one: { tool_choice: "required", parallel_tool_calls: false },
  several: { tool_choice: "required", parallel_tool_calls: true, max_tokens: 120, tools: lax },
  free: { parallel_tool_calls: true, max_tokens: 60, tools: lax },
})) {
  test(`the stream helper puts calls together: ${name}`, async () => {
    for (let seed = 0; seed < 4; seed += 1) {
      const runner = client().openai.chat.completions.stream({ model: SMALL, messages, tools: [weather], seed, ...fields });
      const told = [];
      runner.on("tool_calls.function.arguments.delta", ({ index, arguments_delta }) => {
        told[index] = (told[index] ?? "") + arguments_delta;
      });
      const { choices: [choice] } = await runner.finalChatCompletion();
      const calls = choice.message.tool_calls ?? [];
      if (!fields.max_tokens) assert.deepEqual([calls.length, choice.finish_reason], [1, "tool_calls"]);
      assert.deepEqual(told, calls.map((call) => call.function.arguments));
      for (const call of choice.finish_reason === "tool_calls" ? calls : calls.slice(0, -1)) {
        assert.ok(["Ulm", "Bonn"].includes(JSON.parse(call.function.arguments).town));
      }
    }
  });
}

test("a structured answer is parsed", async () => {
  const schema = weather.function.parameters;
  const answer = await client().openai.chat.completions.parse({
    model: SMALL, messages,
    response_format: { type: "json_schema", json_schema: { name: "weather", strict: true, schema } },
  });
  const { town } = JSON.parse(answer.choices[0].message.content);
  assert.ok(["Ulm", "Bonn"].includes(town));
});

test("vectors come as numbers", async () => {
  const { data, usage } = await client().openai.embeddings.create({ model: "minilm", input: ["a fox", "a bear"] });
  assert.deepEqual(data.map((row) => row.index), [0, 1]);
  assert.equal(data[0].embedding.length, 384);
  assert.ok(data[0].embedding.every(Number.isFinite));
  assert.ok(usage.prompt_tokens > 0);
});

test("a text is gone on with", async () => {
  const answer = await client().openai.completions.create({ model: SMALL, prompt: "The fox", max_tokens: 4 });
  assert.equal(answer.object, "text_completion");
  assert.equal(answer.usage.completion_tokens, 4);
});

test("models are listed and read", async () => {
  const { openai } = client();
  const names = [];
  for await (const model of openai.models.list()) names.push(model.id);
  assert.ok(names.includes(SMALL));
  assert.equal((await openai.models.retrieve(SMALL)).owned_by, "sluice");
});

test("a response is created, and streamed by typed events", async () => {
  const { openai } = client();
  const whole = await openai.responses.create({ model: SMALL, input: "Tell me a story.", max_output_tokens: 16 });
  assert.equal(whole.object, "response");
  assert.ok(whole.output_text.length > 0);
  const types = [];
  for await (const event of await openai.responses.create({ model: SMALL, input: "Tell me a story.", max_output_tokens: 16, stream: true })) {
    types.push(event.type);
  }
  assert.equal(types[0], "response.created");
  assert.match(types.at(-1), /^response\.(completed|incomplete)$/);
});

test("every error is of its class, with code, param and request id", async () => {
  const { openai } = client();
  const cases = [
    [{ temperature: 3 }, OpenAI.BadRequestError, "invalid_value", "temperature"],
    [{ model: "gpt-none" }, OpenAI.NotFoundError, "model_not_found", "model"],
    [{ max_tokens: 100_000 }, OpenAI.BadRequestError, "context_length_exceeded", "messages"],
  ];
  for (const [change, kind, code, param] of cases) {
    const error = await openai.chat.completions.create({ model: SMALL, messages, ...change }).catch((raised) => raised);
    assert.ok(error instanceof kind, String(error));
    assert.deepEqual([error.code, error.param], [code, param]);
    assert.match(error.requestID, /^req_/);
  }
  const wrong = await client("sk-sluice-wrong").openai.models.list().catch((raised) => raised);
  assert.ok(wrong instanceof OpenAI.AuthenticationError);
  assert.equal(wrong.code, "invalid_api_key");
});

test("money that is gone is told once: x-should-retry is honoured", async () => {
  const { openai, asked } = client(SLUICE_KEY_BROKE, { maxRetries: 3 });
  const error = await openai.chat.completions.create({ model: SMALL, messages, max_tokens: 4 }).catch((raised) => raised);
  assert.ok(error instanceof OpenAI.RateLimitError);
  assert.equal(error.code, "insufficient_quota");
  assert.equal(asked.length, 1);
});

test("a rate that is used up is waited for: retry-after is honoured", async () => {
  const { openai, asked } = client(SLUICE_KEY_LIMITED, { maxRetries: 4 });
  for (let call = 0; call < 2; call += 1) {
    const answer = await openai.chat.completions.create({ model: SMALL, messages, max_tokens: 1 });
    assert.equal(answer.usage.completion_tokens, 1);
  }
  assert.ok(asked.length >= 3, `asked ${asked.length} times`);
});

test("a call that takes too long is given up by the client", async () => {
  const error = await client(SLUICE_KEY, { timeout: 1 })
    .openai.chat.completions.create({ model: SMALL, messages, max_tokens: 200 })
    .catch((raised) => raised);
  assert.ok(error instanceof OpenAI.APIConnectionTimeoutError, String(error));
});
