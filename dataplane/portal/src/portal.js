"use strict";
// Adds copying, the reader's own time zone, relative times and live updates. Every page works without it.
const relative = (at) => {
  const seconds = Math.trunc((at - Date.now()) / 1000);
  const size = Math.abs(seconds);
  if (size < 2) return "now";
  const minutes = Math.trunc(size / 60), hours = Math.trunc(minutes / 60), days = Math.trunc(hours / 24), rest = minutes % 60;
  const text = minutes < 2 ? size + " s" : hours < 1 ? minutes + " min" : days > 1 ? days + " days" : days ? "1 day"
    : hours + " h" + (rest ? " " + rest + " min" : "");
  return seconds < 0 ? text + " ago" : "in " + text;
};
const tick = () => {
  for (const shown of document.querySelectorAll("[data-relative]")) {
    shown.textContent = relative(Number(shown.dataset.relative));
  }
};
// A time says its zone only once, at the top of the page; the whole time in UTC is its title.
const local = (at) => {
  const now = new Date();
  const day = at.toDateString() === now.toDateString() ? {}
    : { day: "numeric", month: "short", ...(at.getFullYear() === now.getFullYear() ? {} : { year: "numeric" }) };
  return at.toLocaleString("en", { ...day, hour: "numeric", minute: "2-digit", second: "2-digit" });
};
const localize = () => {
  for (const shown of document.querySelectorAll("time:not([title])")) {
    shown.title = shown.textContent;
    shown.textContent = local(new Date(shown.dateTime));
  }
  for (const shown of document.querySelectorAll("text[data-at]")) {
    const hours = ["hour", "day"].includes(shown.dataset.form);
    const form = hours ? { hour: "numeric", minute: "2-digit" } : { day: "numeric", month: "short" };
    shown.textContent = new Date(Number(shown.dataset.at)).toLocaleString("en", form);
  }
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const place = document.getElementById("zone");
  if (place && zone) place.textContent = zone.split("/").pop().replaceAll("_", " ");
};
const copiers = () => {
  for (const button of document.querySelectorAll("[data-copy][hidden]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const from = button.dataset.copy ? document.getElementById(button.dataset.copy) : button.previousElementSibling;
      const label = button.textContent;
      try {
        await navigator.clipboard.writeText(from.textContent);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select the text and copy it";
      }
      setTimeout(() => { button.textContent = label; }, 2000);
    });
  }
};
const prepare = () => { localize(); tick(); copiers(); };
prepare();
// A form is sent once, however often its button is pressed.
addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  // Later: the form is sent without what is disabled now.
  setTimeout(() => { for (const button of event.target.querySelectorAll("button")) button.disabled = true; });
});
// A page that a browser takes from its memory is as it was left.
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("form button:disabled")) button.disabled = false;
});
// "All events" ticks each event.
for (const all of document.querySelectorAll("[name=all]")) {
  const fields = all.closest("fieldset"), each = [...fields.querySelectorAll("input:not([name=all])")];
  const show = () => { all.checked = each.every((one) => one.checked); };
  fields.addEventListener("change", ({ target }) => {
    if (target === all) for (const one of each) one.checked = all.checked;
    show();
  });
  show();
}
const lives = [...document.querySelectorAll("[data-live]")];
const box = document.getElementById("live");
const say = (text) => {
  const state = document.getElementById("live-state");
  // Said once: a screen reader reads each change.
  if (state.textContent !== text) state.textContent = text;
};
const stop = (why) => { box.checked = false; say("Stopped: " + why + ". Reload the page."); };
const refresh = async () => {
  if (document.hidden || !box.checked) return;
  const isInUse = (live) => live.contains(document.activeElement) || live.querySelector("details[open]");
  if (lives.some(isInUse)) { say("Paused while you read details."); return; }
  const answer = await fetch(location.href, { headers: { accept: "text/html", "x-live": "yes" } });
  if (answer.redirected) { stop("your session has ended"); return; }
  if (!answer.ok) { stop("the server answered " + answer.status); return; }
  say("");
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.querySelectorAll("[data-live]");
  lives.forEach((live, at) => live.replaceChildren(...(fresh[at] ?? live).childNodes));
  prepare();
  // What has ended does not change any more.
  if (!page.getElementById("live")) { box.checked = false; box.closest("label").hidden = true; }
};
if (lives.length && box) {
  box.closest("label").hidden = false;
  box.addEventListener("change", () => say(""));
  setInterval(() => refresh().catch(() => stop("the server could not be reached")), 5000);
}
setInterval(tick, 1000);
