// Judges deliveries with the Standard Webhooks library for JavaScript; see verify.py.
const { readFileSync } = require("node:fs");
const { Webhook, WebhookVerificationError } = require("standardwebhooks");

for (const { secret, body, headers } of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    new Webhook(secret).verify(body, headers);
    console.log("true");
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    console.log("false");
  }
}
