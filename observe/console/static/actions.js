// What an operator may do, where eosin.console.actions.enable allows it. Nothing happens by Enter alone.

import { Component } from "./vendor/preact.module.js";
import { html } from "./parts.js";

/**
 * A form that asks for the token: a cookie stands for it when looking, not when acting.
 * title, warning: words; path: below /api/v1/actions/; state: what was read, and must still be so.
 * name: what is to be typed first, of what cannot be undone; fields: controls of its own; collect(form): what they say,
 * or a sentence about what is missing.
 */
export class Action extends Component {
  constructor() {
    super();
    this.state = { told: "", failed: "", isBusy: false };
  }

  async act(form) {
    const { name, path, state, collect } = this.props;
    const { typed, token } = form.elements;
    if (name && typed.value !== name) return this.setState({ told: "", failed: `Type ${name} to confirm.` });
    const asked = collect?.(form) ?? {};
    if (typeof asked === "string") return this.setState({ told: "", failed: asked });
    this.setState({ isBusy: true, told: "", failed: "" });
    try {
      const answer = await fetch(`/api/v1/actions/${path}`, {
        method: "POST",
        headers: { authorization: `Bearer ${token.value}`, "content-type": "application/json" },
        body: JSON.stringify({ ...state, ...asked, ...(name ? { typed: typed.value } : {}) }),
      });
      const told = await answer.json();
      if (answer.ok && name) typed.value = token.value = "";
      this.setState(answer.ok ? { told: told.text } : { failed: told.error });
    } catch {
      this.setState({ failed: "The broker does not answer." });
    }
    this.setState({ isBusy: false });
  }

  render({ title, warning, name, fields }, { told, failed, isBusy }) {
    return html`<details class=${`action${name ? " final" : ""}`}><summary>${title}</summary>
      <form onSubmit=${(event) => event.preventDefault()}><p>${warning}</p>
        ${fields}
        ${name && html`<label><span>Type <code>${name}</code> to confirm</span> <input name="typed" autocomplete="off" spellcheck=${false} /></label>`}
        <label>Token <input name="token" type="password" autocomplete="off" /></label>
        <button type="button" disabled=${isBusy} onClick=${(event) => this.act(event.currentTarget.form)}>${title}</button></form>
      <p role="alert" class=${failed ? "health grave" : ""}>${failed}</p><p role="status" class=${told ? "health" : ""}>${told}</p></details>`;
  }
}

export const AbortHanging = ({ partition, each }) => html`<${Action} title=${`Abort the transaction of producer ${each.producer_id}/${each.producer_epoch}`}
  warning=${`No coordinator will end it. Readers of committed records will never get its records from offset ${each.first_offset} on; if its producer lives after all, it is refused when it goes on.`}
  name=${partition} path="abort-hanging" state=${{ partition, producer_id: each.producer_id, producer_epoch: each.producer_epoch, first_offset: each.first_offset }} />`;

export const EndTransaction = ({ row }) => html`<${Action} title="End this transaction"
  warning=${`It is aborted, as a new instance of its producer would do it: readers of committed records will never get its records, and the producer is fenced.${row.never_times_out ? " It was kept for its database to decide: if that has committed, the two will differ." : ""}`}
  name=${row.key} path="end-transaction" state=${{ transactional_id: row.key, producer_id: row.producer_id, producer_epoch: row.producer_epoch, start_ms: row.start_ms }} />`;

export const FenceId = ({ row }) => html`<${Action} title="Fence this id"
  warning="Whoever has it now is refused from its next request on. A new instance gets it as always."
  name=${row.key} path="fence-id" state=${{ transactional_id: row.key, producer_id: row.producer_id, producer_epoch: row.producer_epoch }} />`;

/** members: those that the page has seen. */
export const RemoveMember = ({ group, members }) => html`<${Action} title="Remove a member" path="remove-member"
  warning="The others share its partitions. A client that still runs joins again: stop it first. For one that is gone this is quicker than its session timeout, or than to wait for a static member."
  state=${{ group }} collect=${({ elements: { member } }) => (member.value ? { member_id: member.value } : "Choose a member.")}
  fields=${html`<label>Member <select name="member">${members.map((each) => html`<option key=${each.member_id} value=${each.member_id}>${each.client_id}${each.instance_id ? ` (${each.instance_id})` : ""} at ${each.peer}</option>`)}</select></label>`} />`;

const OUTCOMES = [["plain", "without a transaction"], ["commit", "in a transaction that is committed"], ["abort", "in a transaction that is aborted"]];

/** partitions: those that may be written to. */
export const TestRecord = ({ partitions }) => html`<${Action} title="Write a test record" path="test-record"
  warning="Every reader of the topic gets it, as from any producer; of an aborted transaction only readers of uncommitted records do."
  collect=${({ elements: { partition, key, value, outcome } }) => ({ partition: partition.value, key: key.value || null, value: value.value, outcome: outcome.value })}
  fields=${html`<label>Partition <select name="partition">${partitions.slice(0, 1000).map((each) => html`<option key=${each}>${each}</option>`)}</select></label>
    <label>Key <input name="key" autocomplete="off" spellcheck=${false} placeholder="none" /></label>
    <label class="wide">Value <textarea name="value" rows="3" spellcheck=${false}></textarea></label>
    <label>Written <select name="outcome">${OUTCOMES.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}</select></label>`} />`;

export const DeleteRecords = ({ row }) => html`<${Action} title="Delete records" path="delete-records" name=${row.key}
  warning="The log begins at that offset from now on. What is below is gone for every reader."
  state=${{ partition: row.key, log_start: row.log_start }}
  collect=${({ elements: { before } }) => (/^[0-9]{1,18}$/.test(before.value) ? { before: Number(before.value) } : "Give the offset at which the log shall begin.")}
  fields=${html`<label>Everything below offset <input name="before" inputmode="numeric" autocomplete="off" placeholder=${`${row.log_start} to ${row.high_watermark}`} /></label>`} />`;

/** Lines NAME=VALUE as an object; a sentence for a line that is none. */
function settingsOf(text) {
  const found = {};
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) return `${line} is no NAME=VALUE.`;
    found[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return found;
}

export const CreateTopic = () => html`<${Action} title="Create a topic" path="create-topic"
  warning="What is left empty follows the broker."
  collect=${({ elements: { topic, partitions, factor, settings } }) => {
    const configs = settingsOf(settings.value);
    if (!topic.value) return "Give it a name.";
    return typeof configs === "string" ? configs : { name: topic.value, partitions: Number(partitions.value) || -1, replication_factor: Number(factor.value) || -1, configs };
  }}
  fields=${html`<label>Name <input name="topic" autocomplete="off" spellcheck=${false} maxlength="249" /></label>
    <label>Partitions <input name="partitions" type="number" min="1" max="10000" /></label>
    <label>Replicas <input name="factor" type="number" min="1" max="100" /></label>
    <label class="wide">Settings, one NAME=VALUE a line <textarea name="settings" rows="2" spellcheck=${false} placeholder="cleanup.policy=compact"></textarea></label>`} />`;

/** topic: the answer about it. What was seen of a setting goes along: it is not changed when another has changed it meanwhile. */
export const ChangeSetting = ({ topic }) => html`<${Action} title="Change a setting" path="change-topic"
  warning="It holds from now on, for records that are there, too: a shorter retention deletes them."
  state=${{ name: topic.name, topic_id: topic.topic_id }}
  collect=${({ elements: { config, value, clears } }) => {
    const seen = topic.configs.find((each) => each.key === config.value);
    if (!clears.checked && !value.value) return "Give it a value, or let it follow the broker.";
    return { config: config.value, value: clears.checked ? null : value.value, before: seen?.is_own ? seen.value : null };
  }}
  fields=${html`<label>Setting <select name="config">${topic.configs.map((each) => html`<option key=${each.key}>${each.key}</option>`)}</select></label>
    <label>Value <input name="value" autocomplete="off" spellcheck=${false} /></label>
    <label><input name="clears" type="checkbox" /> follow the broker again</label>`} />`;

export const DeleteTopic = ({ topic }) => html`<${Action} title="Delete this topic" path="delete-topic" name=${topic.name}
  warning=${`All its records are gone, in ${topic.partitions === 1 ? "its partition" : `all ${topic.partitions} partitions`}; nothing brings them back.`}
  state=${{ name: topic.name, topic_id: topic.topic_id }} />`;
