// SPDX-License-Identifier: Apache-2.0

// Jobs: the leader, the disabled members and the locks of each job, and the other records of the
// cluster. They are requested frequently for a while after the revision changes, since the change
// may be committed later, and otherwise every few seconds.

import { ask } from "./api.js";
import { el, setText } from "./dom.js";
import { clock, list } from "./words.js";

const timeout = 5000;
const actTimeout = 20000;
const shortInterval = 1000; // between requests after a change, ms
const longInterval = 5000; // between requests otherwise
const fresh = 2500; // how long shortInterval applies
const most = 20; // maximum rows of a table
const letters = 60; // maximum length of a value or name
const listed = 4; // locks listed for a job

// A Jobs is the section of jobs and records.
export class Jobs {
  #place;
  #filter;
  #count;
  #result;
  #changed;
  #revision = "";
  #changedAt = 0; // time when the revision last changed
  #asked = -Infinity; // time of the last request
  #asking = false;
  #jobs = [];
  #records = [];
  #may = false; // whether write requests are allowed
  #name = (address) => address;
  #shown = "";

  // changed is called after each write request.
  constructor(section, changed) {
    [this.#place, this.#filter, this.#count, this.#result] =
      ["#jobs", "#wanted", "#counted", "#switched"].map((id) => section.querySelector(id));
    this.#changed = changed;
    this.#filter.addEventListener("input", () => this.#show());
  }

  // draw requests the data if it may have changed, and shows it.
  draw(looks, names, reference) {
    this.#name = (address) => names.get(address) || address;
    const [view, now] = [reference?.status.view, performance.now()];
    const revision = view ? `${view.version_text}.${view.revision_text} ${view.quorate}` : this.#revision;
    if (revision !== this.#revision) [this.#revision, this.#changedAt] = [revision, now];
    const interval = now - this.#changedAt < fresh ? shortInterval : longInterval;
    if (now - this.#asked > interval) this.#ask();
    const may = looks.some((look) => look.status?.write);
    if (may === this.#may) return;
    this.#may = may;
    this.#show();
  }

  async #ask() {
    if (this.#asking) return;
    this.#asking = true;
    this.#asked = performance.now();
    try {
      [this.#jobs, this.#records] =
        await Promise.all([ask("v1/jobs", timeout), ask("v1/records", timeout)]);
      this.#records = this.#records.filter((r) => !r.key.startsWith("latch/"));
      this.#show();
    } catch {
      // The Watcher reports that the server does not respond or needs a token.
    }
    this.#asking = false;
  }

  // show rebuilds the tables that have changed, and keeps the focused button focused.
  #show() {
    const word = this.#filter.value.trim().toLowerCase();
    const wanted = (...texts) => !word || texts.some((text) => text.toLowerCase().includes(word));
    const jobs = this.#jobs.filter((j) => wanted(j.name, this.#holder(j.leader),
      ...disabledIn(j).map((c) => this.#called(c)),
      ...j.latches.flatMap((l) => [l.name, this.#holder(l.holder)])));
    const records = this.#records.filter((r) => wanted(r.key, this.#holder(r.owner), valueOf(r)));
    const shown = JSON.stringify([this.#may, word, jobs.slice(0, most), records.slice(0, most),
      jobs.length, records.length]);
    if (shown === this.#shown) return;
    this.#shown = shown;
    setText(this.#count, this.#counts(jobs, records));
    const focus = document.activeElement;
    const at = this.#place.contains(focus) && focus.getAttribute("aria-label");
    this.#place.replaceChildren(
      ...(jobs.length ? [this.#jobTable(jobs.slice(0, most))] : []),
      ...(records.length ? [this.#recordTable(records.slice(0, most))] : []));
    if (at) [...this.#place.querySelectorAll("button")].find((b) => b.ariaLabel === at)?.focus();
  }

  #counts(jobs, records) {
    const all = this.#jobs.length + this.#records.length;
    if (!all) return "No jobs, locks or records.";
    if (!jobs.length && !records.length) return "No job or record matches the filter.";
    const some = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
    const latches = jobs.reduce((sum, j) => sum + j.latches.length, 0);
    const led = jobs.filter((j) => j.leader).length.toLocaleString("en");
    const since = jobs.find((j) => !j.known)?.unknown_since;
    const who = since ? `leaders unknown (no quorum) since ${clock(new Date(since))}` :
      `${led} with a leader`;
    const text = list([`${some(jobs.length, "job")}, ${who}`, some(latches, "lock"),
      some(records.length, "other record")]);
    return Math.max(jobs.length, records.length) > most ? `${text}; showing the first ${most}.` : `${text}.`;
  }

  #jobTable(jobs) {
    return table("jobs and their locks", ["Job", "Leader", "Token", "Disabled", "Locks"],
      jobs.map((j) => [
        cut(j.name),
        !j.known ? last(this.#holder(j.leader)) :
          j.leader ? [`★ ${this.#holder(j.leader)} `, ...this.#button("disable", j, j.leader)] : "none",
        j.leader ? j.leader.token.text : "–",
        disabledIn(j).flatMap((c) =>
          [`– ${this.#called(c)} `, ...(j.known ? this.#button("enable", j, c) : [])]),
        list(j.latches.map((l) => `${cut(l.name)} (${j.known ? this.#holder(l.holder) :
          last(this.#holder(l.holder))}, ${l.holder.token.text}${l.stuck ? ", stuck" : ""})`), listed),
      ]));
  }

  #recordTable(records) {
    return table("other records", ["Other record", "Owner", "Token", "Value"], records.map((r) => [
      cut(r.key), !r.owner ? "none" :
        `${r.known ? this.#holder(r.owner) : last(this.#holder(r.owner))}${r.revoked ? ", revoked" : ""}`,
      r.token.text, cut(valueOf(r)),
    ]));
  }

  // button returns an array with one button, or an empty array if write requests are not allowed.
  #button(verb, job, { name, address, host }) {
    if (!this.#may) return [];
    const label = verb === "enable" ? "Enable" : "Disable";
    const button = el("button", {
      type: "button", "aria-label": `${label} ${name || address} for ${job.name}`,
    }, label);
    button.addEventListener("click", () => this.#act(verb, job.name,
      host ? { host } : { member: address }, name || this.#name(address), button));
    return [button];
  }

  async #act(verb, job, target, name, button) {
    button.classList.add("busy");
    try {
      await ask(`v1/jobs/${encodeURIComponent(job)}/${verb}`, actTimeout, "POST", target);
      setText(this.#result, verb === "enable" ? `${name} may lead ${job} again.` :
        `${name} cannot lead ${job} until it is enabled.`);
      this.#result.dataset.mood = "done";
    } catch (error) {
      setText(this.#result, `Failed: ${error.message}.`);
      this.#result.dataset.mood = "bad";
    }
    button.classList.remove("busy");
    this.#asked = -Infinity;
    this.#changed();
  }

  #holder(owner) {
    return owner ? this.#called(owner) : "";
  }

  #called({ name, address }) {
    return cut(name || this.#name(address));
  }
}

// disabledIn returns the disabled members and hosts of a job.
const disabledIn = (job) => [
  ...job.disabled, ...job.disabled_hosts.map((host) => ({ name: `host ${host}`, host })),
];

// last returns the text shown for the last known holder.
const last = (name) => `unknown (no quorum), last ${name || "none"}`;

const cut = (text) => (text.length > letters ? `${text.slice(0, letters)}…` : text);

const valueOf = (r) => (r.value_base64 ? `base64: ${r.value_base64}` : r.value);

// table creates a table. Each cell is a text or an array of DOM nodes.
function table(caption, heads, rows) {
  const cells = (row) => row.map((cell, i) =>
    el(i ? "td" : "th", i ? {} : { scope: "row" }, ...[cell].flat()));
  return el("table", {}, el("caption", { class: "spoken" }, caption),
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...cells(row)))));
}
