// Buttons that copy a command, also where a page without HTTPS has no clipboard.

import { h } from "./dom.js";

const told = document.querySelector("#command");

// `deed` says what the command does, for who can't see beside what the button stands.
export function copyButton(label, deed, command) {
  return h("button", { type: "button", "data-key": `copy ${deed}`, "aria-label": `${label}: copy the command that ${deed}`, title: command, onclick: () => copy(command) }, label);
}

// A command as text, with a button that copies it.
export function copyable(deed, command) {
  return h("p", { class: "row" }, h("code", {}, command), copyButton("Copy", deed, command));
}

async function copy(command) {
  const code = h("code", {}, command);
  const words = h("strong", {});
  told.replaceChildren(words, " ", code);
  words.textContent = await isCopied(code) ? "Copied:" : "Press Ctrl+C to copy:";
}

async function isCopied(code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    return true;
  } catch {
    const selection = getSelection();
    selection.selectAllChildren(code);
    const copied = document.execCommand("copy");
    if (copied) selection.removeAllRanges();
    return copied;
  }
}

window.addEventListener("hashchange", () => told.replaceChildren());
