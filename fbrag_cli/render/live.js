// The live page: it asks, shows what goes on, and keeps the document beside the answers.
// Markup comes from the server's templates alone, through `place`. Every other text is set as text.

// Chunks have positions, from 0, among those of all documents that are asked at once.

/** @typedef {{name: string, first: number, chars: number[], n_words: number}} File  first: of its chunks; chars: of each. */

const MARGIN = 1.5; // heights of the view that are in the page above and below it
const BLOCK = 20; // chunks that are fetched at once
const NEAR = 8; // chunks above and below those in the page whose texts are fetched ahead
const MOST_KEPT = 400; // chunks whose text is kept
const MOST_CHUNKS = 10_000; // of a document that is shown as one
const MOST_CELLS = 2400; // of the map; a cell stands for several chunks in a document of more
const EVENTS = ["resolved_question", "progress", "keyword_matches", "selected", "token", "done", "stopped", "error"]; // of a question
const MOST_BREAKS = 3; // after which a question is not asked again

const $ = (/** @type {string} */ id) => document.getElementById(id);
const made = (/** @type {string} */ id) => $(id).content.cloneNode(true).firstElementChild;
const element = (/** @type {string} */ tag, /** @type {string} */ textContent) =>
  Object.assign(document.createElement(tag), { textContent });
const place = (/** @type {Element} */ element, /** @type {string} */ html) => { element.innerHTML = html ?? ""; };
const counted = (/** @type {number} */ n, /** @type {string} */ one) => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`;

/** Say something to those who do not see the page. Only what matters: stages, and the end. */
const announce = (/** @type {string} */ text) => { $("said").textContent = text; };

// ---- The server -------------------------------------------------------------------------------------------------------------

/** What the server says is wrong, and what to do about it. */
class Problem extends Error {
  constructor(message, hint = "") {
    super(message);
    this.hint = hint;
  }
}

/** The server cannot be reached. */
class Gone extends Error {}

const server = {
  /** @type {Promise<void> | null} of its return, while it is gone */
  absent: null,

  /** Fetch a path. Throws Gone, or Problem for a status of 400 and more. */
  async reach(path, options = {}) {
    let response;
    try {
      response = await fetch(path, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw this.lost();
    }
    if (response.ok) return response;
    const { error } = await response.json().catch(() => ({}));
    throw new Problem(error?.message ?? `The server says ${response.status}.`, error?.hint ?? "");
  },

  async json(path) {
    return (await this.reach(path)).json();
  },

  /** Note that the server is gone, and try until it is back. Returns the error to throw. */
  lost() {
    this.absent ??= this.tried().then(() => {
      this.absent = null;
      $("gone").hidden = true;
      announce("The server is back.");
      reader.soon();
      return library.check().catch(unlessGone);
    });
    if ($("gone").hidden) $("gone").textContent = "The server is gone. This page tries again by itself.";
    $("gone").hidden = false;
    return new Gone();
  },

  async tried() {
    for (let wait = 500; ; wait = Math.min(2 * wait, 8000)) {
      await new Promise((done) => setTimeout(done, wait));
      const response = await fetch("/v1/documents").catch(() => null);
      if (response?.ok) return;
      if (response?.status === 401) $("gone").textContent = "The server has another token now. Open the address that it printed.";
    }
  },
};

// ---- The document -----------------------------------------------------------------------------------------------------------

/** The text of one document. Only the chunks near the view are in the page; the heights of the others are guessed. */
class Reader {
  /** @param {HTMLElement} pane what scrolls on a wide screen  @param {HTMLElement} feed holds the chunks */
  constructor(pane, feed) {
    Object.assign(this, { pane, feed, file: null, asked: "", answer: "", shades: "" });
    this.clear();
    addEventListener("scroll", () => this.soon(), { capture: true, passive: true });
    for (const kind of ["wheel", "touchmove", "pointerdown", "keydown"]) {
      pane.addEventListener(kind, () => { this.moved = true; }, { passive: true }); // a person reads on by themselves
    }
    new ResizeObserver(() => this.fit()).observe(feed);
  }

  clear() {
    this.texts = new Map(); // index of a chunk in the document -> its element
    this.shown = new Map(); // those in the page, texts and blanks
    this.loading = new Map(); // block -> promise
    this.feed.replaceChildren();
  }

  /** Show a document from its beginning. asked: the documents that its positions count, as a query. @param {File} file */
  open(file, asked) {
    this.clear();
    Object.assign(this, { file, asked, shades: "" });
    this.heights = new Float64Array(file.chars.length);
    this.tops = new Float64Array(file.chars.length + 1);
    this.forget();
    if (this.view().top > 0) this.scroll(0);
    this.render();
  }

  /** Show what an answer marks, by its job; "" for none. The texts that are shown stay until the marked ones have come. */
  mark(answer) {
    if (answer === this.answer) return;
    this.answer = answer;
    this.texts = new Map();
    this.loading = new Map();
    this.soon();
  }

  /** Show how near each chunk is. @param {string} shades a digit a position */
  tint(shades) {
    this.shades = shades;
    for (const [i, element] of this.shown) this.tinted(element, i);
  }

  tinted(element, i) {
    if (this.shades) element.className = element.className.replace(/\bs\d\b/, `s${this.shades[this.file.first + i] ?? 0}`);
  }

  // Heights. A chunk that was not measured has the height that its characters suggest, by those that were.

  forget() {
    this.width = this.feed.clientWidth;
    this.known = new Uint8Array(this.heights.length);
    this.measured = this.guessed = 0;
    this.stack();
  }

  guess(i) {
    return 60 + (this.file.chars[i] * 215) / Math.max(this.width, 200);
  }

  stack() {
    const ratio = this.guessed ? this.measured / this.guessed : 1;
    for (let i = 0, top = 0; i < this.heights.length; i++) {
      if (!this.known[i]) this.heights[i] = this.guess(i) * ratio;
      top += this.heights[i];
      this.tops[i + 1] = top;
    }
  }

  measure() {
    for (const [i, element] of this.shown) {
      const height = element.getBoundingClientRect().height;
      if (element.classList.contains("waiting") || this.heights[i] === height) continue;
      if (!this.known[i]) {
        this.known[i] = 1;
        this.measured += height;
        this.guessed += this.guess(i);
      }
      this.heights[i] = height;
    }
    this.stack();
  }

  /** Guess and measure anew where the width has changed. */
  fit() {
    if (!this.file || this.feed.clientWidth === this.width) return;
    const anchor = this.anchor();
    this.forget();
    this.render(anchor);
  }

  // The view, in pixels from the top of the feed.

  get scroller() {
    return getComputedStyle(this.pane).overflowY === "auto" ? this.pane : document.scrollingElement;
  }

  view() {
    const pane = this.scroller === this.pane ? this.pane.getBoundingClientRect() : { top: 0, bottom: innerHeight };
    const top = pane.top + $("head").offsetHeight;
    return { top: top - this.feed.getBoundingClientRect().top, height: pane.bottom - top };
  }

  scroll(y) {
    this.scroller.scrollTop += y - this.view().top;
  }

  /** The index of the chunk at a height. */
  at(y) {
    let [low, high] = [0, this.heights.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** What a person reads: the chunk a quarter below the top, and the part of it that lies above. It does not move. */
  anchor() {
    const { top, height } = this.view();
    const y = top + height / 4;
    const index = this.at(y);
    return { index, part: (y - this.tops[index]) / this.heights[index] };
  }

  hold({ index, part }) {
    const { top, height } = this.view(); // as the browser has it now, which moves where the page becomes shorter
    const moved = this.tops[index] + part * this.heights[index] - (top + height / 4);
    if (top > 0 && Math.abs(moved) >= 1) this.scroller.scrollTop += moved;
  }

  soon() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.render();
    });
  }

  render(anchor = this.file && this.anchor()) {
    if (!this.file?.chars.length) return;
    const { height } = this.view();
    const top = this.tops[anchor.index] + anchor.part * this.heights[anchor.index] - height / 4;
    const first = this.at(top - MARGIN * height);
    const end = this.at(top + (1 + MARGIN) * height) + 1;
    this.fill(...this.held(first, end));
    this.measure();
    const shown = [...this.shown.keys()];
    this.feed.style.paddingTop = `${this.tops[Math.min(...shown)]}px`;
    this.feed.style.paddingBottom = `${this.tops.at(-1) - this.tops[Math.max(...shown) + 1]}px`;
    this.hold(anchor);
    this.timer ||= setTimeout(() => this.fetchMissing(), 40);
    const seen = this.view();
    found.paint();
    map.see(this.file.first + this.at(seen.top + 1), this.file.first + this.at(seen.top + seen.height - 1));
  }

  /** Widen a range to what is selected or focused, so that it stays, if it is near. */
  held(first, end) {
    const { anchorNode, focusNode, isCollapsed } = getSelection();
    for (const node of [document.activeElement, ...(isCollapsed ? [] : [anchorNode, focusNode])]) {
      const i = Number((node?.nodeType === Node.TEXT_NODE ? node.parentElement : node)?.closest?.(".k")?.dataset.index ?? -1);
      if (this.shown.has(i) && i > first - 60 && i < end + 60) [first, end] = [Math.min(first, i), Math.max(end, i + 1)];
    }
    return [first, end];
  }

  fill(first, end) {
    for (const [i, element] of this.shown) {
      if (i >= first && i < end) continue;
      if (element.contains(document.activeElement)) this.pane.focus({ preventScroll: true });
      element.remove();
      this.shown.delete(i);
    }
    let last = null;
    for (let i = first; i < end; i++) {
      const old = this.shown.get(i);
      const element = this.texts.get(i) ?? old ?? this.blank(i);
      if (old && old !== element) old.replaceWith(element);
      else if (!old) last ? last.after(element) : this.feed.prepend(element);
      this.shown.set(i, element);
      last = element;
    }
  }

  blank(i) {
    const element = made("waiting");
    element.style.height = `${this.heights[i]}px`;
    element.firstElementChild.textContent = `chunk ${this.file.first + i + 1}`;
    return element;
  }

  // Texts.

  /** Fetch the texts that are in the page or near. */
  async fetchMissing() {
    this.timer = 0;
    const near = [...this.shown.keys()].flatMap((i) => [i, i - NEAR, i + NEAR]).filter((i) => i >= 0 && i < this.heights.length);
    const blocks = new Set(near.filter((i) => !this.texts.has(i)).map((i) => Math.floor(i / BLOCK)));
    if (!blocks.size || server.absent) return;
    await Promise.all([...blocks].map((block) => this.load(block))).then(() => this.soon(), unlessGone);
    if (this.texts.size > MOST_KEPT) for (const i of this.texts.keys()) if (!this.shown.has(i)) this.texts.delete(i);
  }

  load(block) {
    if (!this.loading.has(block)) {
      const loading = this.loading;
      loading.set(block, this.loaded(block).finally(() => loading.delete(block)));
    }
    return this.loading.get(block);
  }

  async loaded(block) {
    const { texts, file, asked, answer } = this;
    const first = file.first + block * BLOCK;
    const end = Math.min(first + BLOCK, file.first + file.chars.length);
    const path = `/page/chunks?${asked}&first=${first}&end=${end}`;
    const marked = answer && server.reach(`${path}&answer=${answer}`).catch((error) => {
      if (error instanceof Gone) throw error; // else the server no longer has this answer
    });
    const response = (await marked) || (await server.reach(path));
    const holder = document.createElement("template");
    place(holder, await response.text());
    [...holder.content.querySelectorAll(".k")].forEach((element, n) => this.adopt(texts, element, block * BLOCK + n));
  }

  adopt(texts, element, i) {
    const attributes = { role: "article", tabindex: -1, "aria-posinset": i + 1, "aria-setsize": this.heights.length };
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
    element.dataset.index = String(i);
    this.tinted(element, i);
    texts.set(i, element);
  }

  /** Bring a chunk into view, at the sentence that is marked in it. */
  async show(position, { focus = false } = {}) {
    const i = position - this.file.first;
    this.scroll(this.tops[i]);
    this.render();
    if (!this.texts.has(i)) await this.load(Math.floor(i / BLOCK)).catch(unlessGone);
    this.render();
    const element = this.shown.get(i);
    if (!element) return;
    const goal = element.querySelector("mark.best, mark.closest, mark.near");
    const { top, height } = this.view();
    const feed = this.feed.getBoundingClientRect().top;
    const rect = (goal ?? element).getBoundingClientRect();
    this.scroller.scrollTop += rect.top - feed - top - (goal ? height / 4 : 8);
    this.feed.querySelector(".here")?.classList.remove("here");
    element.classList.add("here");
    if (focus) element.focus({ preventScroll: true });
  }
}

/** Ignore that the server is gone, which is said elsewhere. */
function unlessGone(error) {
  if (!(error instanceof Gone)) throw error;
}

// ---- The map ----------------------------------------------------------------------------------------------------------------

/** A cell for each chunk of the document: how near it is, and which are selected. Also a slider, for the keyboard. */
class ChunkMap {
  constructor(strip) {
    this.strip = strip;
    this.cells = strip.firstElementChild;
    this.first = this.end = this.now = 0; // positions
    this.sources = new Map();
    strip.addEventListener("click", ({ target }) => this.over(target, (at) => visit(() => reader.show(at, { focus: true }))));
    strip.addEventListener("pointerover", ({ target }) => {
      this.over(target, (at) => { target.closest("i").title = this.told(at); });
    });
    strip.addEventListener("keydown", (event) => this.pressed(event));
  }

  over(target, act) {
    const k = [...this.cells.children].indexOf(target.closest("i"));
    if (k >= 0) act(this.first + k * this.per);
  }

  /** @param {File} file */
  open({ first, chars }) {
    Object.assign(this, { first, end: first + chars.length, now: first, seen: null });
    this.per = Math.ceil(chars.length / MOST_CELLS) || 1; // chunks that a cell stands for
    const n = Math.ceil(chars.length / this.per);
    this.strip.className = `strip ${n <= 120 ? "few" : n <= 600 ? "some" : n <= 1200 ? "many" : "most"}`;
    this.cells.replaceChildren(...Array.from({ length: n }, () => document.createElement("i")));
    this.strip.setAttribute("aria-valuemin", String(first + 1));
    this.strip.setAttribute("aria-valuemax", String(this.end));
    this.paint({});
  }

  /** Color the cells. shades: a digit a position. sources: position -> numbers. raised: null where all cells are colored. */
  paint({ shades = "", sources = new Map(), raised = null, recalled = new Set() }) {
    this.sources = sources;
    document.body.classList.toggle("by-question", raised !== null);
    [...this.cells.children].forEach((cell, k) => {
      const start = this.first + k * this.per;
      const own = Array.from({ length: Math.min(this.per, this.end - start) }, (_, j) => start + j);
      const numbers = own.flatMap((at) => sources.get(at) ?? []);
      const marks = { on: numbers.length, re: own.some((at) => recalled.has(at)), raised: own.some((at) => raised?.has(at)) };
      const shade = Math.max(0, ...own.map((at) => Number(shades[at] ?? 0)));
      cell.className = [`s${shade}`, ...Object.keys(marks).filter((name) => marks[name])].join(" ");
      cell.replaceChildren(...numbers.slice(0, 1).map((number) => element("b", number)));
    });
    this.see(...(this.seen ?? [this.first, this.first]));
  }

  /** Mark the positions that are in view. */
  see(first, last) {
    for (const cell of this.cells.querySelectorAll(".seen")) cell.classList.remove("seen");
    for (let at = first; at <= last; at += this.per) {
      this.cells.children[Math.floor((at - this.first) / this.per)]?.classList.add("seen");
    }
    this.seen = [first, last];
    if (this.now < first || this.now > last) this.now = first;
    this.strip.setAttribute("aria-valuenow", String(this.now + 1));
    this.strip.setAttribute("aria-valuetext", this.told(this.now));
  }

  told(at) {
    const numbers = this.sources.get(at)?.filter(Boolean).join(", ");
    return `chunk ${at + 1} of ${this.end}${numbers ? `, source ${numbers}` : ""}`;
  }

  pressed(event) {
    const top = this.cells.firstElementChild?.offsetTop;
    const row = [...this.cells.children].findIndex(({ offsetTop }) => offsetTop !== top);
    const down = row > 0 ? row : 1;
    const all = this.end - this.first;
    const back = { ArrowLeft: 1, ArrowUp: down, PageUp: 10 * down, Home: all };
    const on = { ArrowRight: 1, ArrowDown: down, PageDown: 10 * down, End: all };
    const step = on[event.key] ?? -back[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.now = Math.min(Math.max(this.now + step * this.per, this.first), this.end - 1);
    reader.show(this.now);
  }
}

const reader = new Reader($("reader"), $("feed"));
const map = new ChunkMap($("strip"));

// ---- Documents --------------------------------------------------------------------------------------------------------------

/** The documents that can be asked, those that are shown, and the one whose text is. */
const library = {
  shown: "", // the query of those that are shown
  /** @type {File[]} */ files: [],
  opening: Promise.resolve(),

  /** The boxes of all that can be asked. @returns {HTMLInputElement[]} */
  boxes: () => [...document.querySelectorAll("[name=documents]")],

  /** The ids of what is asked. */
  asked() {
    return this.boxes().filter(({ checked }) => checked).map(({ value }) => value);
  },

  named: (/** @type {HTMLInputElement} */ box) => box.closest("li").querySelector("bdi").textContent,

  /** Show documents, after those that are being opened. @param {string[]} ids of entries */
  open(ids) {
    const query = ids.map((id) => `documents=${encodeURIComponent(id)}`).join("&");
    this.opening = this.opening.catch(() => {}).then(() => (query === this.shown ? null : this.opened(query)));
    return this.opening;
  },

  async opened(query) {
    const waiting = new AbortController();
    this.read(waiting.signal);
    const { documents, unread, n_words } = await server.json(`/page/outline?${query}`).finally(() => waiting.abort());
    Object.assign(this, { shown: query, files: documents.flatMap(inParts) });
    this.list(unread);
    const n = documents.length;
    $("size").textContent = `${n > 1 ? `${counted(n, "document")} · ` : ""}${counted(n_words, "word")}`;
    if (n) this.show(this.files[0]);
  },

  /** Say how much of them is read, until all is. */
  async read(signal) {
    while (await new Promise((done) => setTimeout(() => done(!signal.aborted), 500))) {
      const { said } = await server.json("/page/reading").catch(() => ({}));
      if (said && !signal.aborted) $("size").textContent = said;
    }
  },

  list(unread) {
    const folder = sharedFolder(this.files.map(({ name }) => name));
    this.buttons = this.files.map((file) => {
      const item = made("file-of");
      item.querySelector("bdi").textContent = file.name.slice(folder.length);
      item.firstElementChild.title = `${file.name}: ${counted(file.chars.length, "chunk")}`;
      item.firstElementChild.addEventListener("click", () => visit(() => this.show(file)));
      return item.firstElementChild;
    });
    $("files").replaceChildren(...this.buttons.map((button) => button.parentElement));
    $("files-part").hidden = this.files.length < 2 && !unread.length;
    $("lost").hidden = !unread.length;
    $("lost").firstElementChild.textContent = `Not read: ${unread.length}`;
    $("lost").lastElementChild.replaceChildren(...unread.map((why) => element("li", why)));
  },

  /** Show a document from its beginning. @param {File} file */
  show(file) {
    if (reader.file === file) return;
    $("name").textContent = file.name;
    const words = file.n_words ? `${counted(file.n_words, "word")}, ` : "";
    $("counts").textContent = words + counted(file.chars.length, "chunk");
    $("head").hidden = $("map").hidden = false;
    this.buttons.forEach((button, i) => button.setAttribute("aria-current", String(this.files[i] === file)));
    found.clear();
    map.open(file);
    reader.open(file, this.shown);
    turns.current?.paint();
  },

  /** Show a chunk, in its document. */
  async turn(position, options) {
    const file = this.files.findLast(({ first }) => first <= position);
    if (!file) return;
    this.show(file);
    await reader.show(position, options);
  },

  /** Say in the list how near each document is, and which sources it holds. */
  paint(shades, sources) {
    this.files.forEach(({ first, chars }, i) => {
      const own = shades.slice(first, first + chars.length);
      const numbers = [...sources].flatMap(([at, some]) => (at >= first && at < first + chars.length ? some : []));
      const [cell, , held] = this.buttons[i].children;
      cell.className = `s${[..."9876543210"].find((digit) => own.includes(digit)) ?? 0}`;
      const known = numbers.filter(Boolean);
      held.textContent = known.join(" ");
      held.title = known.length ? `source ${known.join(", ")}` : "";
      this.buttons[i].parentElement.classList.toggle("has", numbers.length > 0);
    });
  },

  /** Send files, and ask them from now on. @param {FileList} files */
  async add(files) {
    const added = [];
    for (const file of files) {
      say(`Reading ${file.name} …`);
      const path = `/v1/documents?name=${encodeURIComponent(file.name)}`;
      try {
        const headers = { "content-type": "application/octet-stream" };
        const sent = await server.reach(path, { method: "POST", body: file, headers });
        added.push(...(await sent.json()).documents);
      } catch (error) {
        return error instanceof Gone ? say(`The server is gone: ${file.name} was not read.`) : wrong(error);
      }
    }
    for (const box of this.boxes()) box.checked = false;
    added.forEach((entry) => this.enter(entry));
    say(`Ask about ${added.map(({ name }) => name).join(", ")}`);
    $("question").focus();
    await this.chosen();
  },

  /** Let go of documents that the server no longer has, as it was started anew. */
  async check() {
    const ids = (await server.json("/v1/documents")).documents.map(({ id }) => id);
    const lost = this.boxes().filter(({ value }) => !ids.includes(value));
    if (!lost.length) return;
    say(`${lost.map(this.named).join(", ")}: no longer there. Add it again.`);
    for (const box of lost) box.closest("li").remove();
    await this.chosen();
  },

  enter({ id, name }) {
    let box = this.boxes().find(({ value }) => value === id);
    if (!box) {
      const item = made("entry");
      item.querySelector("bdi").textContent = name;
      box = Object.assign(item.querySelector("input"), { value: id });
      $("entries").append(item);
    }
    box.checked = true;
  },

  /** Show what is asked from now on. */
  async chosen() {
    const n = this.boxes().length;
    const names = this.boxes().filter(({ checked }) => checked).map(this.named);
    const last = (name) => name.replace(/\/+$/, "").replace(/.*\//, "") || name; // of a path
    $("shelf").hidden = n < 2;
    const some = `${names.length} of ${n} ${names.length === 1 ? "is" : "are"} asked`;
    $("asked").textContent = names.length === n ? `All ${n} are asked` : some;
    $("title").textContent = names.map(last).join(", ") || (n ? "No document is asked" : "Ask a document");
    document.title = `${$("title").textContent} · fbrag`;
    turns.open(null);
    turns.store();
    if (names.length) await this.open(this.asked());
  },
};

/** A document in parts that a browser can lay out: it draws nothing below some 17 million pixels. @param {File} file */
function inParts(file) {
  const n = Math.ceil(file.chars.length / MOST_CHUNKS);
  if (n < 2) return [file];
  return Array.from({ length: n }, (_, i) => ({
    ...file,
    name: `${file.name}, part ${i + 1} of ${n}`,
    first: file.first + i * MOST_CHUNKS,
    chars: file.chars.slice(i * MOST_CHUNKS, (i + 1) * MOST_CHUNKS),
    n_words: 0, // not counted
  }));
}

/** The folders that all of some paths begin with. */
function sharedFolder(/** @type {string[]} */ paths) {
  let folder = paths[0]?.replace(/[^/]*$/, "") ?? "";
  while (!paths.every((path) => path.startsWith(folder))) folder = folder.replace(/[^/]*\/$/, "");
  return folder;
}

/** Say something beside the question, to everybody. */
function say(text) {
  $("hello").textContent = text;
  announce(text);
}

// ---- Questions --------------------------------------------------------------------------------------------------------------

/** A question, from when it is asked. */
class Turn {
  /** @param {string} question  @param {string[]} documents */
  constructor(question, documents) {
    Object.assign(this, { question, documents, job: "", done: null, stage: "", shades: "", breaks: 0 });
    Object.assign(this, { raised: null, recalled: new Set(), sources: new Map() });
    this.stopping = new AbortController();
    this.element = made("turn");
    this.$(".asked").textContent = question;
    this.$(".fold").addEventListener("click", () => turns.open(turns.current === this ? null : this));
    this.$(".again").addEventListener("click", () => ask(this.question, this.done?.question));
    this.$(".copy").addEventListener("click", () => this.copy());
    this.$(".stop").addEventListener("click", () => this.stop());
  }

  $(selector) {
    return this.element.querySelector(selector);
  }

  doing(text) {
    this.$(".doing").textContent = text;
  }

  /** Do what brings the answer, again if the server was gone meanwhile. Never throws. @param {() => Promise<void>} work */
  async run(work) {
    if (this.ended) return;
    this.element.setAttribute("aria-busy", "true");
    try {
      while (!this.ended) await work().catch((error) => this.wait(error));
    } catch (error) {
      this.fail(error);
    }
    this.element.removeAttribute("aria-busy");
  }

  /** Ask, and hear the answer. @param {object | null} request  null for what was asked before the page was loaded */
  async stream(request) {
    this.reset();
    this.stopping.signal.throwIfAborted();
    if (request && !this.job) {
      const sent = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(request) };
      this.job = (await (await server.reach("/page/ask", sent)).json()).job;
      turns.store();
      if (this.stopping.signal.aborted) this.stop();
      this.stopping.signal.throwIfAborted();
    }
    try {
      await this.listen();
    } catch (error) {
      if (error instanceof Gone && !request) throw new Problem("The server no longer has this answer.", "Ask again.");
      if (error instanceof Gone) this.job = "";
      throw error;
    }
  }

  /** Hear the events of the question to its end, those that were before first. Throws Gone where the server has lost it. */
  listen() {
    return new Promise((over, failed) => {
      const source = new EventSource(`/page/events/${this.job}`); // goes on by itself after a break, with the next event
      const close = (/** @type {() => void} */ settle) => { source.close(); settle(); };
      this.stopping.signal.addEventListener("abort", () => close(() => failed(this.stopping.signal.reason)));
      const heard = (/** @type {MessageEvent} */ { type, data }) => {
        if (data !== undefined) this[`on_${type}`](JSON.parse(data));
        else if (source.readyState === EventSource.CLOSED) throw server.lost(); // it was started anew
        else this.lost();
        if (this.ended) close(over);
      };
      for (const name of EVENTS) {
        source.addEventListener(name, (event) => {
          try {
            heard(event);
          } catch (error) {
            close(() => failed(error));
          }
        });
      }
    });
  }

  lost() {
    server.lost();
    this.$("progress").removeAttribute("value");
    this.doing("The server is gone. The question is asked again when it is back.");
  }

  reset() {
    this.doing("Asking …");
    this.$(".answer").hidden = this.$(".of-samples").hidden = true;
    this.$(".samples").replaceChildren();
  }

  async wait(error) {
    if (!(error instanceof Gone)) throw error;
    if (++this.breaks > MOST_BREAKS) throw new Problem("The server breaks this question off each time.");
    this.lost();
    await Promise.race([server.absent, new Promise((stop) => this.stopping.signal.addEventListener("abort", stop))]);
  }

  stop() {
    if (this.job) server.reach(`/page/stop/${this.job}`, { method: "POST" }).catch(() => {});
    this.stopping.abort();
    if (!this.element.hasAttribute("aria-busy")) this.on_stopped();
  }

  end() {
    this.ended = true;
    this.$(".going").hidden = true;
    this.$(".tools").hidden = false;
  }

  fail(error) {
    this.end();
    const stopped = error.name === "AbortError";
    this.$(".answer").hidden = true;
    const told = stopped ? ["Stopped."] : [error.message, error.hint].filter(Boolean);
    this.$(".wrong").replaceChildren(...told.map((text) => element("p", text)));
    this.$(".copy").hidden = this.$(".save").hidden = true;
    announce(told.join(" "));
    if (error instanceof Problem) library.check().catch(unlessGone);
    else if (!stopped) console.error(error);
  }

  // Events of the server, in the order in which they come.

  on_resolved_question({ question }) {
    this.$(".understood").hidden = false;
    this.$(".understood bdi").textContent = question;
  }

  on_progress({ label, share, eta_seconds }) {
    const left = eta_seconds >= 90 ? `${Math.round(eta_seconds / 60)} min` : eta_seconds >= 1 ? `${Math.round(eta_seconds)} s` : "";
    this.doing(`${label[0].toUpperCase()}${label.slice(1)}${left && `, about ${left} left`}`);
    const bar = this.$("progress");
    if (share > 0) bar.value = share;
    else bar.removeAttribute("value");
    if (label !== this.stage) announce((this.stage = label));
  }

  on_keyword_matches({ shades, html }) {
    this.shades = shades;
    this.raised = new Set();
    this.sourced("Nearest to the question", html && `<ol class="sources">${html}</ol>`);
    this.paint();
  }

  on_selected({ html, sources, samples_html, raised }) {
    this.raised = new Set(raised);
    this.sampled(samples_html, true);
    this.select(sources, () => ""); // they have numbers once the answer cites them
    this.sourced("Read for the answer", html);
    this.paint();
  }

  sampled(html, open) {
    place(this.$(".samples"), html);
    this.$(".of-samples").hidden = !html;
    this.$(".of-samples").open = open;
  }

  on_token({ text }) {
    const holder = this.$(".answer > div");
    if (this.$(".answer").hidden) holder.replaceChildren($("streamed").content.cloneNode(true));
    this.$(".answer").hidden = false;
    this.$(".said").append(text);
  }

  on_checked({ answer_html }) {
    place(this.$(".answer > div"), answer_html);
    this.$(".answer").hidden = false;
  }

  on_error({ message, hint }) {
    this.fail(new Problem(message, hint));
  }

  /** Stopped by a person, or by the end of the server. */
  on_stopped() {
    if (!this.stopping.signal.aborted) throw server.lost();
    this.fail(new DOMException("", "AbortError"));
  }

  on_done(done) {
    this.end();
    Object.assign(this, { done, shades: done.shades, raised: null, recalled: new Set(done.recalled) });
    this.element.classList.add(done.status);
    this.$(".asked").textContent = done.typed; // what cannot be seen in it is made visible
    this.on_checked(done);
    this.select(done.sources);
    this.sourced(done.sources_heading, done.sources_html);
    this.sampled(done.samples_html, false);
    place(this.$(".figures"), done.figures_html);
    this.warn(done.warnings ?? []);
    this.$(".save").href = `/page/save/${this.job}`;
    this.paint();
    if (turns.current === this) this.reveal();
    announce(this.$(".answer").textContent.replace(/\s+/g, " ").trim());
  }

  /** Show in the document what the answer rests on, unless a person reads elsewhere in it. */
  reveal() {
    reader.mark(this.job);
    const beside = reader.scroller === reader.pane;
    if (beside && !reader.moved && this.done.marked.length) library.turn(this.done.marked[0]).catch(unlessGone);
  }

  /** @param {number[]} positions of the chunks of the sources, in their order */
  select(positions, number = (n) => n + 1) {
    this.sources = new Map();
    positions.forEach((at, n) => this.sources.set(at, [...(this.sources.get(at) ?? []), number(n)]));
  }

  sourced(heading, html) {
    this.$(".of-sources").hidden = !html;
    this.$(".of-sources h3").textContent = heading;
    place(this.$(".of-sources div"), html);
  }

  warn(warnings) {
    this.$(".warnings").hidden = !warnings.length;
    this.$(".warnings").replaceChildren(...warnings.map((text) => element("li", text)));
  }

  /** Show in the map and in the document what is known by now, if this is the question that is open. */
  paint() {
    if (turns.current !== this) return;
    const { shades, sources, raised, recalled } = this;
    library.paint(shades, sources);
    map.paint({ shades, sources, raised, recalled });
    reader.tint(shades);
  }

  async copy() {
    const said = await Promise.resolve()
      .then(() => navigator.clipboard.writeText(this.done.copied))
      .then(() => "Copied", () => "The browser does not let the page copy");
    this.$(".copy").textContent = said;
    announce(said);
    setTimeout(() => { this.$(".copy").textContent = "Copy with sources"; }, 2000);
  }
}

/** The questions of this tab. */
const turns = {
  /** @type {Turn[]} */ all: [],
  /** @type {Turn | null} the one that is unfolded, and shown in the map and the document */ current: null,
  queue: Promise.resolve(),
  conversation: "",

  add(turn) {
    this.all.push(turn);
    $("turns").append(turn.element);
    $("hello").textContent = "";
    this.open(turn);
    turn.element.scrollIntoView({ block: "start" });
  },

  /** Unfold a question, fold the others, and show the documents that it was asked. */
  open(turn) {
    this.current = turn;
    for (const each of this.all) {
      each.element.classList.toggle("folded", each !== turn);
      each.$(".fold").setAttribute("aria-expanded", String(each === turn));
    }
    reader.mark(turn?.done ? turn.job : "");
    if (turn) return library.open(turn.documents).then(() => turn.paint(), wrong);
    library.paint("", new Map());
    map.paint({});
    reader.tint("0".repeat(map.end));
  },

  /** Keep what a reload needs: the server has the answers. */
  store() {
    const asked = this.all.filter(({ job }) => job);
    const kept = asked.map(({ job, question, documents }) => ({ job, question, documents }));
    const { conversation } = this;
    sessionStorage.setItem("fbrag", JSON.stringify({ conversation, kept, asked: library.asked() }));
  },

  /** Show again what was asked before a reload. */
  restore() {
    const { conversation, kept = [], asked } = JSON.parse(sessionStorage.getItem("fbrag") ?? "{}");
    this.conversation = conversation ?? crypto.getRandomValues(new Uint32Array(4)).join("-");
    for (const box of asked ? library.boxes() : []) box.checked = asked.includes(box.value);
    library.chosen().catch(wrong);
    for (const { job, question, documents } of kept) {
      const turn = new Turn(question, documents);
      turn.job = job;
      this.add(turn);
      this.queue = this.queue.then(() => turn.run(() => turn.stream(null)));
    }
    this.store();
  },
};

/** Ask a question, after those that run. @param {string} whole  what it was understood as, where it is asked again */
function ask(question, whole = "") {
  const chosen = new FormData($("ask"));
  const models = Object.fromEntries(["small", "large"].flatMap((role) => (chosen.get(role) ? [[role, chosen.get(role)]] : [])));
  const documents = library.asked();
  const asked = whole ? { question: whole } : { question, conversation: turns.conversation };
  const request = { ...asked, documents, preset: chosen.get("preset"), models };
  const turn = new Turn(question, documents);
  turn.doing("Waiting for the question before it …");
  turns.add(turn);
  turns.queue = turns.queue.then(async () => {
    reader.moved = false;
    await turn.run(() => turn.stream(request));
  });
}

// ---- Going to a place, and back -----------------------------------------------------------------------------------------------

/** Where a person is, for the history. */
function whereabouts() {
  const { index, part } = reader.file ? reader.anchor() : {};
  const turn = turns.all.indexOf(turns.current);
  const file = library.files.indexOf(reader.file);
  return { turn, file, index, part, talk: $("talk").scrollTop, page: scrollY, focus: document.activeElement?.hash };
}

/** Go somewhere, so that the back button comes back. */
async function visit(go) {
  history.replaceState(whereabouts(), "");
  history.pushState(null, "");
  try {
    await go();
    history.replaceState(whereabouts(), "");
  } catch (error) {
    unlessGone(error);
  }
}

async function comeBack({ state }) {
  if (!state) return;
  if (turns.all[state.turn] && turns.all[state.turn] !== turns.current) await turns.open(turns.all[state.turn]);
  const file = library.files[state.file]; // none where other documents are shown by now
  if (!file) return;
  library.show(file);
  const i = Math.min(state.index, file.chars.length - 1);
  reader.scroll(reader.tops[i] + state.part * reader.heights[i] - reader.view().height / 4);
  $("talk").scrollTop = state.talk;
  if (reader.scroller !== reader.pane) scrollTo(0, state.page);
  const link = state.focus && document.querySelector(`a[href="${CSS.escape(state.focus)}"]`);
  link?.focus({ preventScroll: true });
}

/** Follow a link within the page: to a chunk, or to a part of an answer. */
function follow(event) {
  const card = getSelection().isCollapsed && event.target.closest(".sources li");
  const link = event.target.closest("a[href^='#']") ?? (card && card.querySelector("a"));
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const [, number] = /^#c(\d+)$/.exec(link.hash) ?? [];
  const answer = link.hash === "#talk" && turns.current?.element;
  const part = number ? null : answer || document.getElementById(decodeURIComponent(link.hash.slice(1)));
  if (number) visit(() => leaf(turnOf(link), Number(number) - 1));
  else if (part) visit(async () => point(part));
  else return;
  event.preventDefault();
}

const turnOf = (/** @type {Element} */ part) => turns.all.find(({ element }) => element.contains(part));

/** Show a chunk of the documents that a question was asked. */
async function leaf(turn, position) {
  if (turn && turn !== turns.current) await turns.open(turn);
  await library.turn(position, { focus: true });
}

/** Bring a part of an answer into view, unfolded, and let the keyboard go on from there. */
function point(part) {
  const turn = turnOf(part);
  if (turn && turn !== turns.current) turns.open(turn);
  for (let fold = part.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  for (const other of document.querySelectorAll(".talk .here")) other.classList.remove("here");
  if (part.matches("li")) part.classList.add("here");
  part.scrollIntoView({ block: part.matches("li") ? "center" : "start" });
  (part.matches("textarea, [tabindex]") ? part : part.querySelector("a, summary, button"))?.focus({ preventScroll: true });
}

// ---- Finding ----------------------------------------------------------------------------------------------------------------

/** Finds a text in the document, of which most is not in the page. */
const found = {
  text: "", chunks: [], now: -1,

  clear() {
    Object.assign(this, { text: "", chunks: [], now: -1 });
    $("find").querySelector("output").textContent = "";
    this.paint();
  },

  /** Mark the text in what is in the page. A browser that cannot goes without. */
  paint() {
    if (!CSS.highlights) return;
    const ranges = this.text ? [...reader.shown.values()].flatMap((chunk) => rangesOf(chunk, this.text.toLowerCase())) : [];
    CSS.highlights.set("found", new Highlight(...ranges));
  },

  async next(step) {
    const text = $("sought").value.trim();
    if (text !== this.text) {
      this.clear();
      this.text = text;
      if (text) this.chunks = (await server.json(`/page/find?${reader.asked}&text=${encodeURIComponent(text)}`)).chunks;
    }
    const n = this.chunks.length;
    this.now = n ? (this.now + step + n) % n : -1;
    $("find").querySelector("output").textContent = n ? `${this.now + 1} of ${n}` : text && "not found";
    if (n) await library.turn(this.chunks[this.now]);
  },
};

/** The places of a text, in small letters, within an element. */
function rangesOf(element, text) {
  const ranges = [];
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const within = node.data.toLowerCase();
    if (within.length !== node.length) continue; // small letters of other lengths, as of a dotted capital I
    for (let at = within.indexOf(text); at >= 0; at = within.indexOf(text, at + text.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + text.length);
      ranges.push(range);
    }
  }
  return ranges;
}

// ---- The page ---------------------------------------------------------------------------------------------------------------

function submitted(event) {
  event.preventDefault();
  const question = $("question").value.trim();
  if (!question) return;
  if (!library.asked().length) return say("No document is asked: choose one above, or add one.");
  $("question").value = "";
  document.querySelector(".models").open = false;
  if (matchMedia("(pointer: coarse)").matches) $("question").blur(); // and with it the keyboard of a phone
  ask(question);
}

function stop() {
  for (const turn of turns.all) if (!turn.ended) turn.stop();
}

function pressed(event) {
  const inField = event.target.matches("input, textarea, select");
  const settings = document.querySelector(".models[open]");
  if (event.key === "Escape" && settings) settings.open = false;
  else if (event.key === "Escape") stop();
  else if (event.key === "/" && !inField && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    $("question").focus();
  } else if (event.target.id === "question" && event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("ask").requestSubmit();
  } else if (event.target.id === "sought" && event.key === "Enter" && event.shiftKey) {
    event.preventDefault();
    found.next(-1).catch(unlessGone);
  }
}

function dragged(event) {
  if (!event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  document.body.classList.toggle("dropping", event.type === "dragover");
  if (event.type !== "drop") return;
  const folder = [...event.dataTransfer.items].some((item) => item.webkitGetAsEntry?.()?.isDirectory);
  if (folder) say("A folder cannot be dropped. Drop its files, or start fbrag ui with the folder.");
  else library.add(event.dataTransfer.files);
}

function start() {
  history.scrollRestoration = "manual";
  history.replaceState(null, "", location.pathname); // without the token that opened the page
  $("ask").addEventListener("submit", submitted);
  $("find").addEventListener("submit", (event) => {
    event.preventDefault();
    found.next(1).catch(unlessGone);
  });
  $("entries").addEventListener("change", () => library.chosen().catch(wrong));
  $("file").addEventListener("change", ({ target }) => library.add(target.files).then(() => { target.value = ""; }));
  for (const kind of ["dragover", "dragleave", "drop"]) addEventListener(kind, dragged);
  addEventListener("keydown", pressed);
  addEventListener("click", follow);
  addEventListener("popstate", (event) => comeBack(event).catch(unlessGone));
  turns.restore();
}

/** Say that the documents cannot be shown. */
function wrong(error) {
  if (error instanceof Gone) server.absent.then(() => library.chosen()).catch(wrong);
  else say([error.message, error.hint].filter(Boolean).join(" · "));
}

start();
