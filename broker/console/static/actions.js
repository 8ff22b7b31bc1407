// What an operator may do, where eosin.console.actions.enable allows it. Nothing happens by Enter alone.

import { Component } from "./vendor/preact.module.js";
import { html } from "./parts.js";

/**
 * A form that asks for the name of what is acted on, and for the token: a cookie stands for it when looking, not when acting.
 * title, warning: words; name: what is to be typed; path: below /api/v1/actions/; state: what was read, and must still be so.
 */
export class Action extends Component {
  constructor() {
    super();
    this.state = { told: "", failed: "", isBusy: false };
  }

  async act(form) {
    const { name, path, state } = this.props;
    const { typed, token } = form.elements;
    if (typed.value !== name) return this.setState({ told: "", failed: `Type ${name} to confirm.` });
    this.setState({ isBusy: true, told: "", failed: "" });
    try {
      const answer = await fetch(`/api/v1/actions/${path}`, {
        method: "POST",
        headers: { authorization: `Bearer ${token.value}`, "content-type": "application/json" },
        body: JSON.stringify({ ...state, typed: typed.value }),
      });
      const told = await answer.json();
      if (answer.ok) typed.value = token.value = "";
      this.setState(answer.ok ? { told: told.text } : { failed: told.error });
    } catch {
      this.setState({ failed: "The broker does not answer." });
    }
    this.setState({ isBusy: false });
  }

  render({ title, warning, name }, { told, failed, isBusy }) {
    return html`<details class="action"><summary>${title}</summary>
      <form onSubmit=${(event) => event.preventDefault()}><p>${warning}</p>
        <label>Type <code>${name}</code> to confirm <input name="typed" autocomplete="off" spellcheck=${false} /></label>
        <label>Token <input name="token" type="password" autocomplete="off" /></label>
        <button type="button" disabled=${isBusy} onClick=${(event) => this.act(event.currentTarget.form)}>${title}</button></form>
      <p role="alert" class=${failed ? "health trouble" : ""}>${failed}</p><p role="status">${told}</p></details>`;
  }
}

export const AbortHanging = ({ partition, each }) => html`<${Action} title=${`Abort the transaction of producer ${each.producer_id}/${each.producer_epoch}`}
  warning=${`No coordinator will end it. Readers of committed records will never get its records from offset ${each.first_offset} on; if its producer lives after all, it is refused when it goes on.`}
  name=${partition} path="abort-hanging" state=${{ partition, producer_id: each.producer_id, producer_epoch: each.producer_epoch, first_offset: each.first_offset }} />`;

export const EndTransaction = ({ row }) => html`<${Action} title="End this transaction"
  warning=${`It is aborted, as a new instance of its producer would do it: readers of committed records will never get its records, and the producer is fenced.${row.never_times_out ? " It was kept for its database to decide: if that has committed, the two will differ." : ""}`}
  name=${row.key} path="end-transaction" state=${{ transactional_id: row.key, producer_id: row.producer_id, producer_epoch: row.producer_epoch, start_ms: row.start_ms }} />`;
