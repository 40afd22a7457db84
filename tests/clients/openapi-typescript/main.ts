// A client whose types openapi-typescript makes: what tests/clients/run asks of every client.
import { readFileSync, readdirSync } from "node:fs";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

type Order = components["schemas"]["SaveOrderRequest"];

function given(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
}

function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}

const baseUrl = given("DOCKET_API");

async function signedIn(key: string, userId: string) {
  const headers = { "X-Api-Key": key };
  const anonymous = createClient<paths>({ baseUrl, headers });
  const { data, error } = await anonymous.POST("/Auth/Token", { body: { userId, password: given("DOCKET_PASSWORD") } });
  check(data !== undefined, `no token: ${JSON.stringify(error)}`);
  return createClient<paths>({ baseUrl, headers: { ...headers, Authorization: `${data.tokenType} ${data.token}` } });
}

const client = await signedIn(given("DOCKET_KEY"), given("DOCKET_USER"));
const folder = given("DOCKET_ORDERS");
const files = readdirSync(folder);
check(files.length === 7, "seven orders");
let court: string | undefined;
for (const file of files) {
  const body: Order = JSON.parse(readFileSync(`${folder}/${file}`, "utf8"));
  const saved = await client.POST("/Orders/Save", { body });
  check(saved.data !== undefined, `${file}: ${JSON.stringify(saved.error)}`);
  const exported = await client.POST("/Orders/Export", { body: { webOrderId: saved.data.webOrderId } });
  check(exported.data !== undefined, `${file}: ${JSON.stringify(exported.error)}`);
  if (exported.data.orderType === "Court") court = exported.data.workOrderId;
}
check(court !== undefined, "a court work order");
const note = await client.POST("/Notes/Add", { body: { workOrder: court, workOrderType: "Court", report: "Filed." } });
check(note.data?.lineItem === 1, JSON.stringify(note.error));

const query = { from: "2020-01-01", to: "2099-01-01T00:00:00-08:00" };
const orders = await client.GET("/Orders/Search", { params: { query } });
check((orders.data?.items.length ?? 0) >= 7, JSON.stringify(orders.error));
const order = await client.GET("/Orders/Get", { params: { query: { webOrderId: orders.data!.items[0]!.webOrderId } } });
check(order.data?.order.orderType === order.data?.orderType, "the stored order has its type");
for (const path of ["/Notes/Search", "/ProcessStatus/Search", "/Invoices/Search"] as const) {
  const found = await client.GET(path, { params: { query } });
  check(found.data !== undefined && found.data.nextCursor !== undefined, `${path}: ${JSON.stringify(found.error)}`);
}

const limited = await signedIn(given("DOCKET_LIMITED_KEY"), given("DOCKET_LIMITED_USER"));
for (let tries = 0; ; tries++) {
  check(tries < 100, "no 429");
  const { error, response } = await limited.GET("/Orders/Search", { params: { query } });
  if (response.status !== 429) continue;
  check(error?.status === 429 && error.limit === "requestsPerSecond", JSON.stringify(error));
  check(Number(response.headers.get("Retry-After")) >= 1, "Retry-After");
  break;
}
