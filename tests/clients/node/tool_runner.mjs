// The tool runner of Anthropic's client for Node; prints what it said in the end, and what was asked and answered.
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";

const { SLUICE_BASE_URL, SLUICE_KEY, SLUICE_STREAM } = process.env;
const asked = [];
const counting = async (url, init) => {
  const response = await fetch(url, init);
  asked.push([response.status, "thread" in JSON.parse(init.body)]);
  return response;
};
const anthropic = new Anthropic({ apiKey: SLUICE_KEY, baseURL: SLUICE_BASE_URL, maxRetries: 0, timeout: 60_000, fetch: counting });
const look = betaTool({
  name: "look",
  description: "Looks at the sky of a town.",
  inputSchema: { type: "object", properties: { town: { type: "string" } }, required: ["town"] },
  run: ({ town }) => `Rain in ${town}.`,
});
const runner = anthropic.beta.messages.toolRunner({
  model: "tale",
  max_tokens: 64,
  stream: Boolean(SLUICE_STREAM),
  tools: [look],
  messages: [{ role: "user", content: "Is it raining?" }],
});
const message = await runner.runUntilDone();
console.log(JSON.stringify({ text: message.content[0].text, asked }));
