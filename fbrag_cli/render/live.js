// @ts-check
/// <reference no-default-lib="true" />
/// <reference lib="esnext" />
/// <reference lib="dom" />
/// <reference lib="dom.iterable" />
// The live page: it asks, shows the answer as it comes about, and keeps the documents beside it.
// Markup comes from the server's templates alone, through `place`. Every other text is set as text.

// A position counts the chunks of all documents that are searched at once, from 0; a chunk's element has the id `c` and one more.

/**
 * @typedef {Record<string, number>} Seconds  how long a question takes, by the name of a preset
 * @typedef {{name: string, first: number, n_words: number}} Doc  first: position of its first chunk
 * @typedef {{corpus: string, documents: Doc[], n_chunks: number, first: number, end: number, part: number, n_parts: number,
 *   unread: string[], seconds: Seconds}} Outline  of documents, of which the chunks from `first` to before `end` are shown
 * @typedef {{name: string, kind: string, n_files: number, files: string[]}} Entry  n_files: of a folder, which has `files` first
 * @typedef {{reading?: string, texts?: [number, string][], error?: {message: string, hint?: string}} & Partial<Outline>} Line
 * @typedef {{shades: string, sources: number[], numbered: number[], chunks: [number, string][]}} Found  shades: a digit a chunk.
 *   sources: positions, in their order. numbered: those with their number in the strip. chunks: those with marks, as HTML.
 * @typedef {{typed: string, question: string, status: string, answer_html: string, sources_heading: string, sources_html: string,
 *   samples_html: string, figures_html: string, warnings: string[], copied: string, corpus: string, marked: number[],
 *   has_more: boolean, seconds: Seconds} & Found} Done
 * @typedef {{preset?: string, more?: number, models?: Record<string, string>}} How  a question is asked. more: how often what is
 *   read is doubled.
 * @typedef {{turn: number, ids: string[], at?: number, top?: number, talk: number, page: number, link?: string | null}} Whereabouts
 */

const MOST_CELLS = 240; // of the strip; a cell stands for several chunks of documents with more
const EVENTS = ["resolved_question", "progress", "keyword_matches", "selected", "token", "done", "stopped", "error"]; // of a question
const MOST_BREAKS = 3; // after which a question is not asked again
/** @type {Found} */ const NOTHING = { shades: "", sources: [], numbered: [], chunks: [] };

/** The element that a selector names. @template {Element} T  @param {string} selector  @param {new () => T} kind  @returns {T} */
function find(selector, kind, within = /** @type {ParentNode} */ (document)) {
  const found = within.querySelector(selector);
  if (found instanceof kind) return found;
  throw new TypeError(`no ${selector}`);
}

const $ = (/** @type {string} */ id) => find(`#${id}`, HTMLElement);
const copyOf = (/** @type {string} */ id) => /** @type {DocumentFragment} */ (find(`#${id}`, HTMLTemplateElement).content.cloneNode(true));
const question = find("#question", HTMLTextAreaElement);
const form = find("#ask", HTMLFormElement);
const counted = (/** @type {number} */ n, /** @type {string} */ one) => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`;

const listed = (/** @type {string[]} */ lines, tag = "li") =>
  lines.map((textContent) => Object.assign(document.createElement(tag), { textContent }));

/** Put HTML of the server in place. @param {Element} holder  @param {string} html */
const place = (holder, html) => { holder.innerHTML = html; };

/** Show a name, which is cut in the middle where it does not fit. @param {Element} holder  @param {string} name */
function nameIn(holder, name) {
  const shown = find(".name", HTMLElement, holder);
  [shown.children[0].textContent, shown.children[1].textContent, shown.title] = [name.slice(0, -12), name.slice(-12), name];
}

/** Say something to those who do not see the page: stages, and the end. @param {string} text */
const announce = (text) => { $("said").textContent = text; };

/** Say something beside the question, to everybody. @param {string} text */
function say(text) {
  $("hello").textContent = text;
  $("hello").hidden = !text;
  announce(text);
}

/** @param {string} text what the server says, without a capital and a full stop */
function sentence(text) {
  const begun = /^[a-z]+[ ,]/.test(text) ? text[0].toUpperCase() + text.slice(1) : text;
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}

/** @param {number} seconds */
const duration = (seconds) => (seconds >= 90 ? `${Math.round(seconds / 60)} min` : `${Math.max(1, Math.round(seconds))} s`);

// ---- The server -------------------------------------------------------------------------------------------------------------

/** What the server says is wrong, and what to do about it. */
class Problem extends Error {
  constructor(/** @type {string} */ message, hint = "") {
    super([message, hint].filter(Boolean).map(sentence).join("\n"));
  }
}

/** The server cannot be reached. */
class Gone extends Error {}

/** Ignore that the server is gone, which is said elsewhere. @param {unknown} error */
function unlessGone(error) {
  if (!(error instanceof Gone)) throw error;
}

const server = {
  /** @type {Promise<void> | null} of its return, while it is gone */
  absent: null,

  /** Fetch a path. Throws Gone, or Problem for a status of 400 and more. @param {string} path  @param {RequestInit} options */
  async reach(path, options = {}) {
    const response = await fetch(path, options).catch((error) => {
      throw error.name === "AbortError" ? error : this.lost();
    });
    if (response.ok) return response;
    const { error } = await response.json().catch(() => ({}));
    throw new Problem(error?.message ?? `The server says ${response.status}.`, error?.hint ?? "");
  },

  /** Yield the values of a response of one JSON value a line. @param {Response} response */
  async *lines(response) {
    const stream = /** @type {ReadableStream} */ (response.body).pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
      const { value, done } = await stream.read().catch((error) => {
        throw error.name === "AbortError" ? error : this.lost();
      });
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) yield /** @type {Line} */ (JSON.parse(line));
    }
  },

  /** Note that the server is gone, and try until it is back. Returns the error to throw. */
  lost() {
    if ($("gone").hidden) $("gone").textContent = "Lost the connection to fbrag. Reconnecting …";
    $("gone").hidden = false;
    this.absent ??= this.back().then(() => {
      this.absent = null;
      $("gone").hidden = true;
      announce("Connected again.");
      return shelf.check().catch(unlessGone);
    });
    return new Gone();
  },

  async back() {
    for (let wait = 500; ; wait = Math.min(2 * wait, 8000)) {
      await new Promise((done) => setTimeout(done, wait));
      const response = await fetch("/v1/documents").catch(() => null);
      if (response?.ok) return;
      if (response?.status === 401) $("gone").textContent = "fbrag has another token now. Open the address that it printed.";
    }
  },
};

// ---- The documents ----------------------------------------------------------------------------------------------------------

/** The text of the documents, what a question has found in it, and the strip beside it. */
const reader = {
  pane: $("reader"),
  feed: $("feed"),
  /** @type {string[]} of the documents that are shown */ ids: [],
  /** @type {Outline | null} */ about: null,
  found: NOTHING,
  /** @type {[Element, Element][]} chunks with marks, each with the one that it has replaced */ marked: [],
  moved: false, // whether a person reads on by themselves
  loading: Promise.resolve(),
  stopping: new AbortController(),

  get isBeside() {
    return getComputedStyle(this.pane).overflowY === "auto"; // else the page scrolls
  },

  /** Show documents, of long ones the part with the chunk at a position; -1 for any. @param {string[]} ids */
  open(ids, at = -1, anew = false) {
    const { first = 0, end = Infinity } = this.about ?? {};
    if (anew || ids.join() !== this.ids.join() || (at >= 0 && (at < first || at >= end))) {
      this.stopping.abort();
      this.stopping = new AbortController();
      this.ids = ids;
      this.loading = this.load(Math.max(at, 0), this.stopping.signal);
    }
    return this.loading;
  },

  /** @param {number} at  @param {AbortSignal} signal  @returns {Promise<void>} */
  async load(at, signal) {
    this.feed.ariaBusy = "true";
    this.about = null;
    const query = this.ids.map((id) => `documents=${encodeURIComponent(id)}&`).join("");
    try {
      const response = await server.reach(`/page/text?${query}at=${at}`, { signal });
      for await (const line of server.lines(response)) this.take(line);
      this.draw();
    } catch (error) {
      if (signal.aborted) return this.loading; // other documents are shown
      this.ids = [];
      throw error;
    }
    this.feed.ariaBusy = "false";
  },

  /** @param {Line} line */
  take({ error, reading, texts, ...about }) {
    if (error) throw new Problem(error.message, error.hint);
    if (reading !== undefined) return this.note(sentence(reading || "Reading …"));
    if (!texts) return this.begin(/** @type {Outline} */ (about));
    for (const [owner, html] of texts) this.section(owner).insertAdjacentHTML("beforeend", html);
  },

  clear() {
    this.stopping.abort();
    [this.ids, this.loading] = [[], Promise.resolve()];
    this.feed.replaceChildren();
  },

  note: (/** @type {string} */ text) => { $("reading").textContent = text; },

  /** @param {Outline} about */
  begin(about) {
    const { documents, part, n_parts, unread } = (this.about = about);
    this.note("");
    this.marked = [];
    this.feed.replaceChildren();
    this.pane.scrollTop = 0;
    $("part").hidden = n_parts < 2;
    find("span", HTMLElement, $("part")).textContent = `Part ${part} of ${n_parts}. Find in the browser covers this part.`;
    for (const button of $("part").querySelectorAll("button")) button.disabled = part + Number(button.value) in { 0: 0, [n_parts + 1]: 0 };
    $("files").hidden = documents.length < 2;
    const names = documents.map(({ name, first }) => new Option(name.length > 48 ? `${name.slice(0, 24)}…${name.slice(-22)}` : name, String(first)));
    $("files").replaceChildren(new Option(counted(documents.length, "document")), ...names);
    $("unread").hidden = !unread.length;
    find("summary", HTMLElement, $("unread")).textContent = "Skipped files";
    find("ul", HTMLElement, $("unread")).replaceChildren(...listed(unread));
    costs(about.seconds);
  },

  /** The element of a document, which holds its chunks. @param {number} owner  @returns {Element} */
  section(owner) {
    const last = this.feed.lastElementChild;
    if (last?.id === `d${owner + 1}`) return last;
    const { name, n_words } = /** @type {Outline} */ (this.about).documents[owner];
    const made = find("section", HTMLElement, copyOf("document"));
    made.id = `d${owner + 1}`;
    nameIn(made, name);
    find("h2", HTMLElement, made).ariaLabel = name;
    find(".scores", HTMLElement, made).textContent = counted(n_words, "word");
    this.feed.append(made);
    return made;
  },

  chunk(/** @type {number} */ at) {
    return document.getElementById(`c${at + 1}`);
  },

  /** Show what a question has found. @param {Found} found */
  mark(found) {
    this.found = found;
    this.draw();
  },

  draw() {
    const { shades, chunks } = this.found;
    for (const [now, before] of this.marked) now.replaceWith(before);
    this.marked = chunks.flatMap(([at, html]) => {
      const before = this.chunk(at);
      const holder = document.createElement("template");
      place(holder, html);
      const now = holder.content.firstElementChild;
      if (!before || !now) return [];
      before.replaceWith(now);
      return [/** @type {[Element, Element]} */ ([now, before])];
    });
    for (const chunk of this.feed.querySelectorAll(".k")) {
      chunk.className = chunk.className.replace(/\bs\d\b/, `s${shades[Number(chunk.id.slice(1)) - 1] ?? 0}`);
    }
    if (this.about) this.drawStrip(this.about);
  },

  /** @param {Outline} about */
  drawStrip({ first, end }) {
    const { shades, sources, numbered } = this.found;
    const n = Math.min(end - first, MOST_CELLS);
    const edge = (/** @type {number} */ k) => first + (k * (end - first)) / n;
    $("cells").replaceChildren(...Array.from({ length: n }, (_, k) => {
      const own = shades.slice(Math.floor(edge(k)), Math.ceil(edge(k + 1)));
      return Object.assign(document.createElement("i"), { className: `s${[...own].sort().at(-1) ?? 0}` });
    }));
    const shown = [...sources.entries()].filter(([i, at]) => at >= first && at < end && sources.indexOf(at) === i);
    const links = shown.map(([i, at]) => {
      const isNumbered = numbered.includes(at);
      const link = Object.assign(document.createElement("a"), { href: `#c${at + 1}`, textContent: isNumbered ? `${i + 1}` : "" });
      link.ariaLabel = link.title = isNumbered ? `Source ${i + 1}` : `Passage ${i + 1} that was read`;
      link.style.setProperty("--at", `${(100 * (at - first + 0.5)) / (end - first)}%`);
      return link;
    });
    $("hits").replaceChildren($("cells"), ...links.reverse()); // the first source lies on top
  },

  /** Bring a chunk into view, at the sentence that is marked in it. @param {number} at */
  async show(at, { focus = false } = {}) {
    await this.open(this.ids, at);
    const chunk = this.chunk(at);
    if (!chunk) return;
    const goal = chunk.querySelector("mark.best, mark.closest, mark.near");
    for (let n = 0; n < 2; n++) { // the heights of what comes into view were guessed
      (goal ?? chunk).scrollIntoView({ block: goal ? "center" : "start" });
      await new Promise(requestAnimationFrame);
    }
    this.feed.querySelector(".here")?.classList.remove("here");
    chunk.classList.add("here");
    chunk.tabIndex = -1;
    if (focus) chunk.focus({ preventScroll: true });
  },

  /** The chunk that a person reads, and its top in pixels. */
  anchor() {
    const { left, width } = this.pane.getBoundingClientRect();
    const chunk = document.elementFromPoint(left + width / 2, innerHeight / 4)?.closest("#feed .k");
    return chunk ? { at: Number(chunk.id.slice(1)) - 1, top: chunk.getBoundingClientRect().top } : {};
  },

  /** Bring a chunk where it was. @param {number} at  @param {number} top */
  async hold(at, top) {
    await this.open(this.ids, at);
    for (let n = 0; n < 2; n++) {
      this.chunk(at)?.scrollIntoView();
      this.pane.scrollTop += (this.chunk(at)?.getBoundingClientRect().top ?? top) - top;
      await new Promise(requestAnimationFrame);
    }
  },
};

/** The pages of sources as pictures: below the text of a source, and larger over the page. */
const sheets = {
  /** The element that holds the page of a source. @param {Element} part of the source  @returns {HTMLDialogElement | null} */
  of: (part) => part.closest(".sources li")?.querySelector("dialog") ?? null,

  /** @param {HTMLDialogElement} sheet  @returns {HTMLButtonElement} what opens and closes it */
  button: (sheet) => find(".show button", HTMLButtonElement, /** @type {Element} */ (sheet.parentElement)),

  /** Take up a click on a button of a source. @param {HTMLButtonElement} button  @param {HTMLDialogElement} sheet */
  async press(button, sheet) {
    if (button.matches(".larger")) return this.size(sheet, !sheet.matches(":modal"));
    if (button.matches(".show button")) return sheet.open ? this.close(sheet) : this.open(sheet);
    await this.load(sheet, button.value);
    const goal = sheet.querySelector(`.turning button:enabled:not(.larger)`);
    if (goal instanceof HTMLElement) goal.focus({ preventScroll: true });
  },

  /** @param {HTMLDialogElement} sheet */
  async open(sheet) {
    sheet.open = true; // and the focus stays
    sheet.replaceChildren(...listed(["Rendering the page …"], "p"));
    this.name(sheet);
    await this.load(sheet);
  },

  /** @param {HTMLDialogElement} sheet  @param {string} page its number; 0 for the first one with the sentence */
  async load(sheet, page = "0") {
    const job = turns.all.find(({ element }) => element.contains(sheet))?.job;
    const width = Math.min(2400, Math.ceil(Math.max(2 * sheet.clientWidth, 1100) * Math.min(devicePixelRatio, 2)));
    sheet.ariaBusy = "true";
    try {
      const { name, html } = await (await server.reach(`/page/picture/${job}/${this.button(sheet).value}?page=${page}&width=${width}`)).json();
      if (!sheet.open) return; // closed meanwhile
      place(sheet, html);
      sheet.ariaLabel = name;
      announce(name);
      this.scale(sheet);
    } catch (error) {
      sheet.replaceChildren(...listed(error instanceof Gone ? ["The connection is lost."] : told(error), "p"));
      announce(sheet.textContent ?? "");
    }
    sheet.ariaBusy = null;
  },

  /** Show a page over everything, or below its source. @param {HTMLDialogElement} sheet  @param {boolean} isLarge */
  size(sheet, isLarge) {
    if (isLarge) sheet.open = false;
    else sheet.close();
    if (isLarge) sheet.showModal();
    else sheet.open = true;
    this.scale(sheet);
    find(".larger", HTMLButtonElement, sheet).focus({ preventScroll: true });
  },

  /** Name what the buttons do, and bring the box into view. @param {HTMLDialogElement} sheet */
  scale(sheet) {
    find(".larger", HTMLButtonElement, sheet).textContent = sheet.matches(":modal") ? "Smaller" : "Larger";
    (sheet.querySelector(".boxes") ?? sheet).scrollIntoView({ block: "center", inline: "start" });
  },

  /** @param {HTMLDialogElement} sheet */
  name(sheet) {
    const button = this.button(sheet);
    button.textContent = sheet.open ? "Hide page" : "Show page";
    button.ariaLabel = `${button.textContent} of source ${button.value}`;
    button.ariaExpanded = String(sheet.open);
  },

  /** @param {HTMLDialogElement} sheet */
  close(sheet) {
    const isWithin = sheet.contains(document.activeElement);
    sheet.open = false;
    sheet.replaceChildren();
    this.name(sheet);
    if (isWithin) this.button(sheet).focus();
  },

  /** Leave the large view, or close a page. Returns whether there was one. @param {KeyboardEvent} event */
  escape(event) {
    const sheet = document.querySelector("dialog:modal") ?? (event.target instanceof Element ? this.of(event.target) : null);
    if (!(sheet instanceof HTMLDialogElement && sheet.open)) return false;
    event.preventDefault(); // else the browser closes it, too
    if (sheet.matches(":modal")) this.size(sheet, false);
    else this.close(sheet);
    return true;
  },
};

/** Say on the presets what a question costs with them. @param {Seconds} seconds */
function costs(seconds) {
  for (const input of $("presets").querySelectorAll("input")) {
    const known = seconds[input.value]; // which is not known to the second
    find("small", HTMLElement, /** @type {Element} */ (input.nextElementSibling)).textContent = known ? duration(known < 20 ? known : 5 * Math.round(known / 5)) : "";
  }
}

/** The documents that can be searched, and those that are. */
const shelf = {
  /** @type {Entry[]} */ entries: [],
  /** @type {Map<string, HTMLInputElement>} of the documents, and of the files of folders */ boxes: new Map(),

  /** Show what there is. @param {string[] | null} chosen names; null for all that the server was started with */
  async load(chosen) {
    const { documents } = await (await server.reach("/page/shelf")).json();
    this.entries = documents;
    this.boxes.clear();
    $("entries").replaceChildren(...this.entries.map((entry) => this.drawn(entry)));
    for (const { name, kind, files } of this.entries) {
      const whole = chosen ? chosen.includes(name) : kind !== "upload";
      this.box(name).checked = whole;
      for (const file of files) this.box(file).checked = whole || !!chosen?.includes(file);
    }
  },

  /** @param {string} name  @returns {HTMLInputElement} */
  box: (name) => /** @type {HTMLInputElement} */ (shelf.boxes.get(name)),

  /** @param {string} name  @returns {HTMLElement} a list item with its box */
  item(name, shown = name) {
    const made = find("li", HTMLElement, copyOf("entry"));
    const box = find("input", HTMLInputElement, made);
    nameIn(made, shown);
    box.value = name;
    this.boxes.set(name, box);
    return made;
  },

  /** @param {Entry} entry */
  drawn({ name, kind, n_files, files }) {
    const made = this.item(name, kind === "folder" ? `${name} (folder)` : name);
    const remove = find(".remove", HTMLElement, made);
    remove.hidden = kind !== "upload";
    remove.ariaLabel = `Remove ${name}`;
    remove.addEventListener("click", () => this.remove(name).catch((error) => say(told(error).join(" "))));
    if (!files.length) return made;
    find("details", HTMLElement, made).hidden = false;
    find("summary", HTMLElement, made).textContent = counted(n_files, "file");
    find("ul", HTMLElement, made).append(...files.map((file) => this.item(file, file.slice(name.length + 1))));
    find(".note", HTMLElement, made).hidden = files.length === n_files;
    find(".note", HTMLElement, made).textContent = `${counted(n_files - files.length, "other file")} can only be searched with the whole folder.`;
    return made;
  },

  /** Take up a click on a box: that of a folder counts for its files, and theirs for it. @param {Event} event */
  changed({ target }) {
    for (const { name, files } of this.entries) {
      const [whole, parts] = [this.box(name), files.map(this.box)];
      if (target === whole) for (const part of parts) part.checked = whole.checked;
      else if (parts.some((part) => part === target)) whole.checked = parts.every(({ checked }) => checked);
    }
    return this.show();
  },

  /** The names of what is searched: of a folder as a whole, or of its files. */
  ids() {
    return this.entries.flatMap(({ name, files }) => (this.box(name).checked ? [name] : files.filter((file) => this.box(file).checked)));
  },

  /** Send files, and search them, too, from now on. @param {Iterable<File>} files */
  async add(files) {
    const added = [];
    for (const file of files) {
      say(`Reading ${file.name} …`);
      const path = `/page/add?name=${encodeURIComponent(file.name)}`;
      try {
        const headers = { "content-type": "application/octet-stream" };
        const sent = await server.reach(path, { method: "POST", body: file, headers });
        added.push((await sent.json()).documents[0].name);
      } catch (error) {
        say(error instanceof Gone ? `${file.name} was not read. Add it again.` : told(error).join(" "));
        break;
      }
    }
    if (added.length === [...files].length) say("");
    if (!added.length) return;
    await this.load([...this.ids(), ...added]);
    const shown = this.show();
    question.focus();
    await shown;
  },

  /** Let go of a file that was added. @param {string} name */
  async remove(name) {
    await server.reach(`/v1/documents/${encodeURIComponent(name)}`, { method: "DELETE" });
    await this.load(this.ids().filter((each) => each !== name));
    announce(`${name} is removed.`);
    $("asked").focus();
    await this.show();
  },

  /** Let go of documents that the server no longer has. */
  async check() {
    const before = this.ids();
    await this.load(before);
    const lost = before.filter((name) => !this.boxes.has(name));
    if (!lost.length) return reader.ids.length ? undefined : this.show();
    say(`${lost.join(", ")} is no longer there. Add it again.`);
    await this.show();
  },

  /** Show what is searched from now on. */
  async show() {
    const names = this.ids();
    const size = (/** @type {string} */ name) => this.entries.find((entry) => entry.name === name)?.n_files || 1;
    const total = (/** @type {string[]} */ all) => all.reduce((sum, name) => sum + size(name), 0);
    const [all, some] = [total(this.entries.map(({ name }) => name)), total(names)];
    for (const { name, files } of this.entries) this.box(name).indeterminate = !this.box(name).checked && files.some((file) => this.box(file).checked);
    $("shelf").hidden = all < 2 && this.entries.every(({ kind }) => kind !== "upload");
    $("asked").textContent = `Searching ${some === all ? "" : `${some.toLocaleString("en")} of `}${counted(all, "document")}`;
    const what = some > 1 ? `these ${counted(some, "document")}` : some || !all ? "this document" : "a document";
    $("title").textContent = all ? `Ask ${what}` : "Ask a document";
    $("nothing").hidden = some > 0;
    question.disabled = find("#go", HTMLButtonElement).disabled = !some;
    document.title = `${names.map((name) => name.replace(/.*\//, "")).join(", ") || "Ask a document"} · fbrag`;
    turns.open(null);
    turns.store();
    if (some) await reader.open(names).catch(wrong);
    else reader.clear();
  },
};

/** What went wrong, and what to do. @param {unknown} error */
const told = (error) => (error instanceof Problem ? error.message : "The page has failed. Load it again.").split("\n");

/** Say that documents cannot be shown. @param {unknown} error */
function wrong(error) {
  if (error instanceof Gone) return; // they are shown when the server is back
  reader.clear();
  reader.note(told(error).join(" "));
  announce(told(error).join(" "));
  if (!(error instanceof Problem)) console.error(error);
}

// ---- Questions --------------------------------------------------------------------------------------------------------------

/** A question, from when it is asked. */
class Turn {
  job = "";
  stage = "";
  breaks = 0;
  ended = false;
  found = NOTHING;
  /** @type {Done | null} */ done = null;
  stopping = new AbortController();

  /** @param {string} asked  @param {string[]} documents  @param {How} how */
  constructor(asked, documents, how) {
    this.question = asked;
    this.documents = documents;
    this.how = how;
    this.element = find(".turn", HTMLElement, copyOf("turn"));
    this.$(".asked").textContent = asked;
    this.$(".fold").addEventListener("click", () => turns.open(turns.current === this ? null : this));
    this.$(".how").textContent = [how.preset === "thorough" ? "Thorough" : "", how.more ? "More passages are read" : ""].filter(Boolean).join(" · ");
    this.$(".how").hidden = !this.$(".how").textContent;
    this.$(".again").addEventListener("click", () => this.again(chosen()));
    this.$(".further").addEventListener("click", () => this.again({ ...how, more: (how.more ?? 0) + 1 }));
    this.$(".thorough").addEventListener("click", () => this.again({ ...how, preset: "thorough", more: 0 }));
    this.$(".copy").addEventListener("click", () => this.copy());
    this.$(".stop").addEventListener("click", () => this.stop());
  }

  /** @param {string} selector */
  $(selector) {
    return find(selector, HTMLElement, this.element);
  }

  /** Ask it again as it was understood, of the same documents. @param {How} how */
  again(how) {
    ask(this.question, how, { documents: this.documents, whole: this.done?.question });
  }

  /** Bring the answer, again if the server was gone meanwhile. Never throws. @param {object | null} request null after a reload */
  async run(request) {
    this.element.ariaBusy = "true";
    try {
      while (!this.ended) await this.hear(request).catch((error) => this.wait(error, request));
    } catch (error) {
      this.fail(error);
    }
    this.element.ariaBusy = null;
  }

  /** Ask, and hear the events to the end, those that were before first. @param {object | null} request */
  async hear(request) {
    this.$(".doing").textContent = "Asking …";
    this.$(".answer").hidden = this.$(".of-samples").hidden = true;
    this.stopping.signal.throwIfAborted();
    if (request && !this.job) {
      const sent = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(request) };
      this.job = (await (await server.reach("/page/ask", sent)).json()).job;
      turns.store();
      if (this.stopping.signal.aborted) this.stop();
      this.stopping.signal.throwIfAborted();
    }
    await new Promise((over, failed) => {
      const source = new EventSource(`/page/events/${this.job}`); // goes on by itself after a break, with the next event
      const close = (/** @type {() => void} */ settle) => { source.close(); settle(); };
      this.stopping.signal.addEventListener("abort", () => close(() => failed(this.stopping.signal.reason)));
      for (const name of EVENTS) {
        source.addEventListener(name, (event) => {
          try {
            if (event instanceof MessageEvent) this.take(name, JSON.parse(event.data));
            else if (source.readyState === EventSource.CLOSED) throw server.lost(); // the server has lost the question
            else this.lost();
            if (this.ended) close(() => over(undefined));
          } catch (error) {
            close(() => failed(error));
          }
        });
      }
    });
  }

  /** Wait until the server is back. @param {unknown} error  @param {object | null} request */
  async wait(error, request) {
    if (!(error instanceof Gone)) throw error;
    if (!request) throw new Problem("the server no longer has this answer", "ask again");
    if (++this.breaks > MOST_BREAKS) throw new Problem("the server keeps failing on this question", "ask it again later");
    this.job = "";
    this.lost();
    await Promise.race([server.absent, new Promise((stop) => this.stopping.signal.addEventListener("abort", stop))]);
  }

  lost() {
    server.lost();
    this.$("progress").removeAttribute("value");
    this.$(".doing").textContent = "Lost the connection. The answer goes on when it is back.";
  }

  stop() {
    if (this.job) server.reach(`/page/stop/${this.job}`, { method: "POST" }).catch(() => {});
    this.stopping.abort();
    if (!this.element.ariaBusy) this.fail(this.stopping.signal.reason);
  }

  end() {
    this.ended = true;
    this.$(".going").hidden = true;
    this.$(".tools").hidden = false;
  }

  /** @param {unknown} error */
  fail(error) {
    this.end();
    const isStopped = this.stopping.signal.aborted;
    const lines = isStopped ? ["Stopped."] : told(error);
    this.$(".answer").hidden = this.$(".copy").hidden = this.$(".save").hidden = true;
    this.$(".wrong").replaceChildren(...listed(lines, "p"));
    this.$(".wrong").classList.toggle("stopped", isStopped);
    announce(lines.join(" "));
    if (error instanceof Problem) shelf.check().catch(unlessGone);
    else if (!isStopped) console.error(error);
  }

  /** Take an event of the server. @param {string} name  @param {any} about */
  take(name, about) {
    if (name === "resolved_question") {
      this.$(".understood").hidden = false;
      this.$(".understood bdi").textContent = about.question;
    } else if (name === "progress") {
      this.progress(about.label, about.share, about.eta_seconds);
    } else if (name === "keyword_matches") {
      this.found = { ...NOTHING, shades: about.shades };
      this.sources("Best keyword matches so far", about.html && `<ol class="sources">${about.html}</ol>`);
    } else if (name === "selected") {
      this.found = { ...NOTHING, shades: about.shades, sources: about.sources };
      this.samples(about.samples_html, true);
      this.sources("Reading", about.html);
    } else if (name === "token") {
      if (this.$(".answer").hidden) this.$(".answer").replaceChildren(copyOf("streamed"));
      this.$(".answer").hidden = false;
      this.$(".said").append(about.text);
    } else if (name === "done") {
      this.finish(about);
    } else if (name === "error") {
      this.fail(new Problem(about.message, about.hint));
    } else {
      if (!this.stopping.signal.aborted) throw server.lost(); // it was the end of the server that stopped it
      this.fail(null);
    }
    if (name === "keyword_matches" || name === "selected") this.paint();
  }

  /** @param {string} label  @param {number | null} share  @param {number | null} left */
  progress(label, share, left) {
    const time = left ? `, about ${duration(left)} left` : "";
    this.$(".doing").textContent = label[0].toUpperCase() + label.slice(1) + time;
    this.$("progress").toggleAttribute("value", !!share);
    if (share) this.$("progress").setAttribute("value", String(share));
    if (label !== this.stage) announce((this.stage = label));
  }

  /** @param {Done} done */
  finish(done) {
    this.end();
    this.done = done;
    this.found = { ...done, numbered: done.marked };
    this.element.classList.add(done.status);
    this.$(".asked").textContent = done.typed; // what cannot be seen in it is made visible
    place(this.$(".answer"), done.answer_html);
    this.$(".answer").hidden = false;
    this.sources(done.sources_heading, done.sources_html);
    this.samples(done.samples_html, false);
    place(this.$(".figures"), done.figures_html);
    const warnings = done.warnings.filter((each) => !each.startsWith("left out: ")); // which the page says of its documents
    this.$(".warnings").hidden = !warnings.length;
    this.$(".warnings").replaceChildren(...listed(warnings));
    find(".save", HTMLAnchorElement, this.element).href = `/page/save/${this.job}`;
    this.$(".further").hidden = !done.has_more;
    this.$(".thorough").hidden = this.how.preset === "thorough";
    turns.offer();
    costs(done.seconds);
    if (turns.current === this) this.reveal(done).catch(unlessGone);
    announce((this.$(".answer").textContent ?? "").replace(/\s+/g, " ").trim());
  }

  /** Show in the documents what the answer rests on, unless a person reads elsewhere in them. @param {Done} done */
  async reveal({ corpus, marked }) {
    if (reader.about && reader.about.corpus !== corpus) await reader.open(this.documents, 0, true); // a file has changed
    await reader.loading;
    this.paint();
    if (reader.isBeside && !reader.moved && marked.length) await reader.show(marked[0]);
  }

  /** @param {string} heading  @param {string} html */
  sources(heading, html) {
    this.$(".of-sources").hidden = !html;
    this.$(".of-sources h3").textContent = heading;
    place(this.$(".of-sources div"), html);
  }

  /** @param {string} html  @param {boolean} open */
  samples(html, open) {
    Object.assign(this.$(".of-samples"), { hidden: !html, open });
    place(this.$(".samples"), html);
  }

  paint() {
    if (turns.current === this) reader.mark(this.found);
  }

  async copy() {
    const said = await Promise.resolve()
      .then(() => navigator.clipboard.writeText(this.done?.copied ?? ""))
      .then(() => "Copied", () => "The browser does not let the page copy");
    this.$(".copy").textContent = said;
    announce(said);
    setTimeout(() => { this.$(".copy").textContent = "Copy with sources"; }, 2000);
  }
}

/** The questions of this tab. */
const turns = {
  /** @type {Turn[]} */ all: [],
  /** @type {Turn | null} the one that is unfolded, whose marks the documents have */ current: null,
  queue: Promise.resolve(),
  conversation: "",

  /** @param {Turn} turn  @param {object | null} request */
  add(turn, request) {
    this.all.push(turn);
    $("turns").append(turn.element);
    say("");
    this.open(turn);
    turn.element.scrollIntoView({ block: "start" });
    this.queue = this.queue.then(() => (turn.ended ? undefined : turn.run(request)));
  },

  /** Unfold a question, fold the others, and show the documents that it was asked. @param {Turn | null} turn */
  async open(turn) {
    this.current = turn;
    for (const each of this.all) {
      each.element.classList.toggle("folded", each !== turn);
      each.$(".fold").ariaExpanded = String(each === turn);
    }
    if (turn) await reader.open(turn.documents).catch(wrong);
    if (this.current === turn) reader.mark(turn?.found ?? NOTHING);
  },

  /** Offer to save all answers as one page, once there are several. */
  offer() {
    const jobs = this.all.filter(({ done }) => done).map(({ job }) => `job=${job}`);
    $("whole").hidden = jobs.length < 2;
    find("#whole", HTMLAnchorElement).href = `/page/conversation?${jobs.join("&")}`;
  },

  /** Keep what a reload needs: the server has the answers. */
  store() {
    const kept = this.all.filter(({ job }) => job).map(({ job, question, documents, how }) => ({ job, question, documents, how }));
    sessionStorage.setItem("fbrag", JSON.stringify({ conversation: this.conversation, kept, asked: shelf.ids() }));
  },

  /** Show again what was asked before a reload. */
  async restore() {
    const { conversation, kept = [], asked } = JSON.parse(sessionStorage.getItem("fbrag") ?? "{}");
    this.conversation = conversation ?? crypto.getRandomValues(new Uint32Array(4)).join("-");
    await shelf.load(asked ?? null).catch(unlessGone);
    const before = /** @type {Turn[]} */ (kept).map(({ job, question, documents, how }) => Object.assign(new Turn(question, documents, how), { job }));
    const shown = shelf.show();
    for (const turn of before) this.add(turn, null);
    this.store();
    await shown;
  },
};

/** @returns {How} what is chosen below the question */
function chosen() {
  const fields = new FormData(form);
  const models = Object.fromEntries(["small", "large"].flatMap((role) => (fields.get(role) ? [[role, String(fields.get(role))]] : [])));
  return { preset: String(fields.get("preset")), models };
}

/** Ask a question, after those that run. @param {string} asked  @param {How} how
 * @param {{documents?: string[], whole?: string}} again what it was asked of, and understood as, if it was asked before */
function ask(asked, how = chosen(), { documents = shelf.ids(), whole = "" } = {}) {
  const request = { documents, ...how, question: whole || asked };
  const turn = new Turn(asked, documents, how);
  turn.$(".doing").textContent = "Waiting for the question before it …";
  reader.moved = false;
  turns.add(turn, whole ? request : { ...request, conversation: turns.conversation });
}

// ---- Going to a place, and back -----------------------------------------------------------------------------------------------

/** @returns {Whereabouts} where a person is, for the history */
function whereabouts() {
  const turn = turns.current ? turns.all.indexOf(turns.current) : -1;
  const link = document.activeElement?.getAttribute("href");
  return { turn, ids: reader.ids, ...reader.anchor(), talk: $("talk").scrollTop, page: scrollY, link };
}

/** @type {Promise<unknown>} of the latest move */
let moving = Promise.resolve();

/** Move after the moves before, so that the latest one stands. @param {() => Promise<unknown>} go */
function move(go) {
  moving = moving.catch(() => {}).then(go);
  moving.catch(unlessGone);
}

/** Go somewhere, so that the back button comes back. @param {() => Promise<unknown>} go */
function visit(go) {
  move(async () => {
    history.replaceState(whereabouts(), "");
    history.pushState(null, "");
    await go();
    if (!history.state) history.replaceState(whereabouts(), ""); // else the person has gone back meanwhile
  });
}

/** @param {PopStateEvent} event */
async function comeBack({ state }) {
  if (!state) return;
  const { turn, ids, at, top, talk, page, link } = /** @type {Whereabouts} */ (state);
  if (turns.all[turn] && turns.all[turn] !== turns.current) await turns.open(turns.all[turn]);
  if (ids.join() !== reader.ids.join()) return; // other documents are shown by now
  if (at !== undefined && top !== undefined) await reader.hold(at, top);
  $("talk").scrollTop = talk;
  if (!reader.isBeside) scrollTo(0, page);
  const focused = link && document.querySelector(`a[href="${CSS.escape(link)}"]`);
  if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
}

/** Follow a link within the page, to a chunk or to a part of an answer, or a button of a source. @param {MouseEvent} event */
function follow(event) {
  if (!(event.target instanceof Element)) return;
  const button = event.target.closest(".sources button");
  const sheet = sheets.of(event.target);
  if (button instanceof HTMLButtonElement && sheet) sheets.press(button, sheet).catch(unlessGone);
  const card = getSelection()?.isCollapsed && !event.target.closest("button, .sheet") && event.target.closest(".sources li");
  const link = event.target.closest("a[href^='#']") ?? (card && card.querySelector("a"));
  if (!(link instanceof HTMLAnchorElement) || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const [, number] = /^#c(\d+)$/.exec(link.hash) ?? [];
  const goal = link.hash === "#talk" ? turns.current?.element : document.getElementById(decodeURIComponent(link.hash.slice(1)));
  if (number) visit(() => unfolded(link).then(() => reader.show(Number(number) - 1, { focus: true })));
  else if (goal) visit(() => point(goal));
  else return;
  event.preventDefault();
}

/** Unfold the question that an element is of. @param {Element} part */
async function unfolded(part) {
  const turn = turns.all.find(({ element }) => element.contains(part));
  if (turn && turn !== turns.current) await turns.open(turn);
}

/** Bring a part of the page into view, unfolded, and let the keyboard go on from there. @param {HTMLElement} goal */
async function point(goal) {
  await unfolded(goal);
  for (let fold = goal.closest("details"); fold; fold = fold.parentElement?.closest("details") ?? null) fold.open = true;
  document.querySelector(".talk .here")?.classList.remove("here");
  if (goal.matches("li")) goal.classList.add("here");
  goal.scrollIntoView({ block: goal.matches("li") ? "center" : "start" });
  const focused = goal.matches("textarea, [tabindex]") ? goal : goal.querySelector("a, summary, button");
  if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
}

// ---- The page ---------------------------------------------------------------------------------------------------------------

/** @param {SubmitEvent} event */
function submitted(event) {
  event.preventDefault();
  const asked = question.value.trim();
  if (!asked || !shelf.ids().length) return;
  const [most, n] = [Number(question.dataset.most), [...asked].length];
  if (n > most) return say(`A question has up to ${counted(most, "character")}. This one has ${n.toLocaleString("en")}.`);
  question.value = "";
  find("#models", HTMLDetailsElement).open = false;
  if (matchMedia("(pointer: coarse)").matches) question.blur(); // and with it the keyboard of a phone
  ask(asked);
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  const inField = event.target instanceof Element && event.target.matches("input, textarea, select");
  const models = find("#models", HTMLDetailsElement);
  if (event.key === "Escape" && models.open) models.open = false;
  else if (event.key === "Escape" && sheets.escape(event)) return;
  else if (event.key === "Escape") turns.all.filter(({ ended }) => !ended).forEach((turn) => turn.stop());
  else if (event.key === "/" && !inField && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    question.focus();
  } else if (event.target === question && event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    form.requestSubmit();
  }
}

/** @param {DragEvent} event */
function dragged(event) {
  if (!event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  document.body.classList.toggle("dropping", event.type === "dragover");
  if (event.type !== "drop") return;
  const folder = [...event.dataTransfer.items].some((item) => item.webkitGetAsEntry?.()?.isDirectory);
  if (folder) say("A folder cannot be dropped. Drop its files, or start fbrag ui with the folder.");
  else shelf.add(event.dataTransfer.files);
}

function start() {
  history.scrollRestoration = "manual";
  history.replaceState(null, "", location.pathname); // without the token that opened the page
  form.addEventListener("submit", submitted);
  $("entries").addEventListener("change", (event) => shelf.changed(event));
  const file = find("#file", HTMLInputElement);
  file.addEventListener("change", () => shelf.add(file.files ?? []).then(() => { file.value = ""; }));
  const files = find("#files", HTMLSelectElement);
  files.addEventListener("change", () => visit(() => reader.show(Number(files.value))));
  files.addEventListener("blur", () => { files.selectedIndex = 0; }); // it is a menu
  for (const button of $("part").querySelectorAll("button")) {
    button.addEventListener("click", () => visit(() => reader.show(button.value === "1" ? reader.about?.end ?? 0 : (reader.about?.first ?? 1) - 1)));
  }
  $("cells").addEventListener("click", ({ clientX, clientY }) => {
    const { left, top, width, height } = $("cells").getBoundingClientRect();
    const share = height > width ? (clientY - top) / height : (clientX - left) / width;
    const { first = 0, end = 0 } = reader.about ?? {};
    visit(() => reader.show(Math.min(end - 1, first + Math.floor(share * (end - first))), { focus: true }));
  });
  let [width, seen] = [0, reader.anchor()]; // where a person reads, for when the lines get another width
  addEventListener("scroll", () => { seen = reader.anchor(); }, { capture: true, passive: true });
  new ResizeObserver(() => {
    if (width && width !== reader.feed.clientWidth && seen.at !== undefined) reader.hold(seen.at, seen.top).catch(unlessGone);
    width = reader.feed.clientWidth;
  }).observe(reader.feed);
  for (const kind of ["wheel", "touchmove", "pointerdown", "keydown"]) {
    reader.pane.addEventListener(kind, () => { reader.moved = true; }, { passive: true });
  }
  addEventListener("dragover", dragged);
  addEventListener("dragleave", dragged);
  addEventListener("drop", dragged);
  addEventListener("keydown", pressed);
  addEventListener("close", ({ target }) => { // by a gesture of the system
    if (target instanceof HTMLDialogElement && !target.open && target.childElementCount) sheets.close(target);
  }, { capture: true });
  addEventListener("click", follow);
  addEventListener("popstate", (event) => move(() => comeBack(event)));
  turns.restore();
}

start();
