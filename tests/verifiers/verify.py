"""Judges deliveries with the Standard Webhooks library for Python.

Standard input: a JSON list of {secret, body, headers}. Standard output: a line `true` or `false` for each.
"""

import json
import sys

from standardwebhooks import Webhook, WebhookVerificationError

for delivery in json.load(sys.stdin):
    try:
        Webhook(delivery["secret"]).verify(delivery["body"], delivery["headers"])
        print("true")
    except WebhookVerificationError:
        print("false")
