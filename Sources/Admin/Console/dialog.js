/// Dialogs by `<dialog>`: the browser keeps the focus inside, closes on Escape, and gives the focus back.

import { Fault } from "./api.js";
import { fill, h, setText } from "./dom.js";

let lastID = 0;

/// Opens a dialog; it is gone from the page when it closes. `build(close)` makes its content.
export function open(title, build, { kind = "", onclose = () => {} } = {}) {
  const id = `dialog-${lastID += 1}`;
  const opener = document.activeElement;
  const dialog = h("dialog", { class: `dialog ${kind}`, "aria-labelledby": id });
  const close = () => dialog.close();
  fill(dialog,
    h("div", { class: "dialog-head" }, h("h2", { id, tabindex: "-1" }, title),
      h("button", { type: "button", class: "plain close", onclick: close, "aria-label": "Close" }, "✕")),
    h("div", { class: "dialog-body" }, build(close)));
  dialog.addEventListener("close", () => {
    if (!dialog.isConnected) return;
    dialog.remove();
    if (opener?.isConnected) opener.focus();
    onclose();
  });
  // A click on the backdrop hits the dialog itself.
  dialog.addEventListener("pointerdown", (event) => { if (event.target === dialog && kind === "drawer") close(); });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/// Asks before an action and carries it out. The dialog stays open while it runs and if it fails, and says why. `fields` are
/// elements of the form, `action(form)` does it. Answers whether it was done.
export function confirm({ title, text, button, isDangerous = true, fields = [], action }) {
  return new Promise((resolve) => {
    let isDone = false;
    open(title, (close) => {
      const message = h("p", { class: "wrong", role: "alert" });
      const submit = h("button", { type: "submit", class: isDangerous ? "danger" : "primary" }, button);
      const form = h("form", {
        class: "stack", novalidate: true,
        async onsubmit(event) {
          event.preventDefault();
          message.textContent = "";
          submit.disabled = true;
          try {
            await action(form);
            isDone = true;
            close();
          } catch (error) {
            setText(message, error instanceof Fault || error instanceof Complaint ? error.message : `The page failed: ${error.message}`);
            submit.disabled = false;
            (error.field ?? submit).focus();
          }
        },
      }, text && h("p", {}, text), fields, message,
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: close }, "Cancel"), submit));
      return form;
    }, { onclose: () => resolve(isDone) });
  });
}

/// A complaint about a field of a dialog.
export class Complaint extends Error {
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}
