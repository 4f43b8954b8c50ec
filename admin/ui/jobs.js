// SPDX-License-Identifier: Apache-2.0

// Jobs: who leads each job, who may not, and who holds its latches; and the other records
// of the cluster. They are asked for when the nodes tell of another revision, which may
// be committed a moment later, and now and then.

import { ask } from "./api.js";
import { el, setText } from "./dom.js";
import { clock, list } from "./words.js";

const timeout = 5000;
const actTimeout = 20000;
const rest = 1000; // between two questions while there is news, ms
const patience = 5000; // and while there is none
const fresh = 2500; // how long news is
const most = 20; // rows of a table
const letters = 60; // of a value, or a name
const told = 4; // latches of one job

// A Jobs is the section.
export class Jobs {
  #place;
  #filter;
  #count;
  #said;
  #changed;
  #revision = "";
  #news = 0; // when there was another revision
  #asked = -Infinity; // when the last question was
  #asking = false;
  #jobs = [];
  #records = [];
  #may = false; // it may be acted on
  #name = (address) => address;
  #shown = "";

  // changed is called when something was done.
  constructor(section, changed) {
    [this.#place, this.#filter, this.#count, this.#said] =
      ["#jobs", "#wanted", "#counted", "#switched"].map((id) => section.querySelector(id));
    this.#changed = changed;
    this.#filter.addEventListener("input", () => this.#show());
  }

  // draw asks where something may be new, and shows what is known.
  draw(looks, names, reference) {
    this.#name = (address) => names.get(address) || address;
    const [view, now] = [reference?.status.view, performance.now()];
    const revision = view ? `${view.version_text}.${view.revision_text} ${view.quorate}` : this.#revision;
    if (revision !== this.#revision) [this.#revision, this.#news] = [revision, now];
    if (now - this.#asked > (now - this.#news < fresh ? rest : patience)) this.#ask();
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
      // The server is gone, or wants its token: whoever looks at it says so.
    }
    this.#asking = false;
  }

  // show writes the tables anew where they differ, and gives who had a button in focus
  // the same one again.
  #show() {
    const word = this.#filter.value.trim().toLowerCase();
    const wanted = (...texts) => !word || texts.some((text) => text.toLowerCase().includes(word));
    const jobs = this.#jobs.filter((j) => wanted(j.name, this.#holder(j.leader),
      ...j.disabled.map((c) => this.#called(c)),
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
    if (!all) return "Nobody leads a job, holds a latch or keeps a record.";
    if (!jobs.length && !records.length) return "No job and no record has that.";
    const some = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
    const latches = jobs.reduce((sum, j) => sum + j.latches.length, 0);
    const led = jobs.filter((j) => j.leader).length.toLocaleString("en");
    const since = jobs.find((j) => !j.known)?.unknown_since;
    const who = since ? `who leads them is unknown (no quorum) since ${clock(new Date(since))}` :
      `${led} of them led`;
    const text = list([`${some(jobs.length, "job")}, ${who}`,
      some(latches, "latch").replace("latchs", "latches"), some(records.length, "other record")]);
    return Math.max(jobs.length, records.length) > most ? `${text}; the first ${most} are shown.` : `${text}.`;
  }

  #jobTable(jobs) {
    return table("jobs and their latches", ["Job", "Leader", "Token", "May not lead", "Latches held"],
      jobs.map((j) => [
        cut(j.name),
        !j.known ? last(this.#holder(j.leader)) :
          j.leader ? [`★ ${this.#holder(j.leader)} `, ...this.#button("disable", j, j.leader)] : "nobody",
        j.leader ? j.leader.token.text : "–",
        j.disabled.length ? j.disabled.flatMap((c) =>
          [`– ${this.#called(c)} `, ...(j.known ? this.#button("enable", j, c) : [])]) : "",
        list(j.latches.map((l) => `${cut(l.name)} (${j.known ? this.#holder(l.holder) :
          last(this.#holder(l.holder))}, ${l.holder.token.text})`), told),
      ]));
  }

  #recordTable(records) {
    return table("other records", ["Other record", "Owner", "Token", "Value"], records.map((r) => [
      cut(r.key), !r.owner ? "nobody" :
        `${r.known ? this.#holder(r.owner) : last(this.#holder(r.owner))}${r.revoked ? ", revoked" : ""}`,
      r.token.text, cut(valueOf(r)),
    ]));
  }

  // button is in a list of its own, which is empty where nobody may act.
  #button(verb, job, { name, address }) {
    if (!this.#may) return [];
    const label = verb === "enable" ? "Enable" : "Disable";
    const button = el("button", {
      type: "button", "aria-label": `${label} ${name || address} for ${job.name}`,
    }, label);
    button.addEventListener("click", () => this.#act(verb, job.name, address, button));
    return [button];
  }

  async #act(verb, job, member, button) {
    button.classList.add("busy");
    try {
      await ask(`v1/jobs/${encodeURIComponent(job)}/${verb}`, actTimeout, "POST", { member });
      setText(this.#said, verb === "enable" ? `${this.#name(member)} may lead ${job} again.` :
        `${this.#name(member)} leads ${job} no more, until it is enabled.`);
      this.#said.dataset.mood = "done";
    } catch (error) {
      setText(this.#said, `Not done: ${error.message}.`);
      this.#said.dataset.mood = "bad";
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

// last is who had something when that was known.
const last = (name) => `unknown (no quorum), last ${name || "nobody"}`;

const cut = (text) => (text.length > letters ? `${text.slice(0, letters)}…` : text);

const valueOf = (r) => (r.value_base64 ? `base64: ${r.value_base64}` : r.value);

// table has a row for each list of cells, each of which is a text, or parts.
function table(caption, heads, rows) {
  const cells = (row) => row.map((cell, i) =>
    el(i ? "td" : "th", i ? {} : { scope: "row" }, ...[cell].flat()));
  return el("table", {}, el("caption", { class: "spoken" }, caption),
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...cells(row)))));
}
