"use strict";
// Adds a button that copies to commands and files, and scrolls the navigation to its current line. Every page works without it.
const copied = navigator.clipboard ? document.querySelectorAll(".copies > pre") : [];
for (const pre of copied) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(pre.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select the text and copy it";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  pre.after(button);
}
const pages = document.querySelector(".pages");
const current = pages.querySelector("details [aria-current]");
if (current) pages.scrollTop = current.offsetTop - pages.clientHeight / 2;
