// A client that openapi-generator makes for TypeScript: what tests/clients/run asks of every client.
import { readFileSync, readdirSync } from "node:fs";
import {
  AuthApi, Configuration, InvoicesApi, NotesApi, OrdersApi, ProblemFromJSON, ProcessStatusApi, ResponseError, SaveOrderRequestFromJSON,
} from "./client/index.js";

function given(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
}

function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}

async function signedIn(apiKey: string, userId: string): Promise<Configuration> {
  const basePath = given("DOCKET_API");
  const auth = new AuthApi(new Configuration({ basePath, apiKey }));
  const sessionTokenRequest = { userId, password: given("DOCKET_PASSWORD") };
  const { token } = await auth.authCreateToken({ sessionTokenRequest });
  return new Configuration({ basePath, apiKey, accessToken: token });
}

const settings = await signedIn(given("DOCKET_KEY"), given("DOCKET_USER"));
const orders = new OrdersApi(settings);
const folder = given("DOCKET_ORDERS");
const files = readdirSync(folder);
check(files.length === 7, "seven orders");
let court: string | undefined;
for (const file of files) {
  const saveOrderRequest = SaveOrderRequestFromJSON(JSON.parse(readFileSync(`${folder}/${file}`, "utf8")));
  const { webOrderId } = await orders.ordersSave({ saveOrderRequest });
  const exported = await orders.ordersExport({ exportRequest: { webOrderId } });
  if (exported.orderType === "Court") court = exported.workOrderId;
}
check(court !== undefined, "a court work order");
const notes = new NotesApi(settings);
const note = await notes.notesAdd({ noteRequest: { workOrder: court, workOrderType: "Court", report: "Filed." } });
check(note.lineItem === 1, JSON.stringify(note));

const dates = { from: "2020-01-01", to: "2099-01-01T00:00:00-08:00" };
const found = await orders.ordersSearch(dates);
check(found.items.length >= 7, JSON.stringify(found));
const order = await orders.ordersGet({ webOrderId: found.items[0]!.webOrderId });
check(order.order.orderType === order.orderType, "the stored order has its type");
await notes.notesSearch(dates);
await new ProcessStatusApi(settings).processStatusSearch(dates);
await new InvoicesApi(settings).invoicesSearch(dates);

const limited = new OrdersApi(await signedIn(given("DOCKET_LIMITED_KEY"), given("DOCKET_LIMITED_USER")));
for (let tries = 0; ; tries++) {
  check(tries < 100, "no 429");
  try {
    await limited.ordersSearch(dates);
  } catch (error) {
    check(error instanceof ResponseError && error.response.status === 429, String(error));
    check(Number(error.response.headers.get("Retry-After")) >= 1, "Retry-After");
    check(ProblemFromJSON(await error.response.json()).limit === "requestsPerSecond", "limit");
    break;
  }
}
