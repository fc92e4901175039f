'use strict';
// Everything that is shown here goes through text nodes and attributes that are no links: what a node said stays text.
(() => {
const $ = (sel, at = document) => at.querySelector(sel), $$ = (sel, at = document) => [...at.querySelectorAll(sel)];
const el = (tag, cls, ...inside) => {
  const e = document.createElement(tag);
  if (cls) e.className = cls;
  e.append(...inside);
  return e;
};
const classOf = word => data.classes[word] || 'quiet';
const rank = word => ['bad', 'open', 'warn', 'quiet', 'good'].indexOf(classOf(word));

const search = $('#search'), hits = $('#hits'), list = $('#list'), pointed = $('#pointed');
let data = null, sorted = [], shown = 0, found = [];
$('.tools').hidden = false;

// What is searched beside the nodes: everything with a text of its own.
const rows = () => $$('.item').filter(e => !data || !list.contains(e)); // which have a list of their own
const wordsOf = text => text.toLowerCase().split(/\s+/).filter(Boolean);
let opened = [];

function find() {
  const words = wordsOf(search.value);
  for (const d of opened) d.open = false;
  opened = [];
  let n = 0;
  const hit = text => { text = text.toLowerCase(); return words.every(w => text.includes(w)); };
  for (const e of rows()) {
    const is = hit(e.textContent);
    e.hidden = !is;
    if (!is) continue;
    n++;
    const part = e.closest('details.part');
    if (words.length && part && !part.open) { part.open = true; opened.push(part); }
  }
  for (const part of $$('.part')) {
    const items = $$('.item', part);
    part.hidden = words.length > 0 && part.id !== 'nodes' && !items.some(e => !e.hidden);
  }
  if (data) {
    found = words.length ? sorted.filter(node => hit(node.text ||= textOf(node))) : sorted;
    n += words.length ? found.length : 0;
    shown = 0;
    more(true);
  }
  hits.value = words.length ? n + (n === 1 ? ' hit' : ' hits') : '';
}

const textOf = n => [n.n, n.z, n.w, n.s, ...(n.r || []).map(r => r.w + ' ' + r.c + ' ' + r.s)].join(' ').toLowerCase();
const seen = all => {
  const ul = el('ul', 'seen');
  for (const r of all) ul.append(el('li', classOf(r.w), el('b', '', r.w), ' ', el('span', '', r.c), ' ', el('code', '', r.s)));
  return ul;
};

// The list of the nodes, the worst first: a few, then a hundred at a time.
const atFirst = 12, atOnce = 100;
let body = null, button = null, count = null;
function more(anew) {
  if (anew) {
    const table = el('table', 'rows'), head = el('tr');
    for (const t of ['', 'node', 'zone', 'what']) head.append(el('th', '', t));
    body = el('tbody');
    table.append(el('thead', '', head), body);
    button = el('button', '', 'more nodes');
    button.type = 'button';
    button.onclick = () => more(false);
    count = el('p', 'quiet');
    list.replaceChildren(table, button, count);
  }
  const many = anew && found === sorted ? atFirst : atOnce;
  for (const n of found.slice(shown, shown + many)) {
    const what = el('td');
    if (n.r && n.r.length) {
      const d = el('details', '', el('summary', '', n.s || 'what was seen'));
      d.addEventListener('toggle', () => { if (d.open && d.childElementCount < 2) d.append(seen(n.r)); });
      d.open = found.length === 1;
      what.append(d);
    } else what.append(n.s || '');
    const tr = el('tr', 'item ' + classOf(n.w), el('td', '', el('b', '', n.w)), el('td', '', n.n), el('td', '', n.z || ''), what);
    tr.tabIndex = -1;
    body.append(tr);
  }
  shown = Math.min(shown + many, found.length);
  button.hidden = shown >= found.length;
  count.textContent = found.length === 0 ? 'no node has this' : shown + ' of ' + found.length + ' nodes';
}

// A square of a zone is a node: by its place.
function pointing(svg) {
  const first = +svg.dataset.first, size = +svg.dataset.size, across = +svg.dataset.across;
  const at = ev => {
    const box = svg.getBoundingClientRect(), unit = box.width / across;
    const i = Math.floor((ev.clientY - box.top) / unit) * across + Math.floor((ev.clientX - box.left) / unit);
    return i >= 0 && i < size ? data.nodes[first + i] : null;
  };
  svg.addEventListener('pointermove', ev => {
    const n = at(ev);
    pointed.textContent = n ? n.n + ': ' + n.w + (n.s ? ', ' + n.s : '') : '\u00a0';
    svg.classList.toggle('points', !!n);
  });
  svg.addEventListener('click', ev => {
    const n = at(ev);
    if (!n) return;
    search.value = n.n;
    find();
    list.scrollIntoView({block: 'center'});
  });
}

// A matrix, from groups of nodes down to one path. The numbers are those of matrix.go.
const mostSingle = 40, mostBad = 30, mostBlocks = 10, denseFrom = 12;
function matrix(box, plane) {
  const levels = [{title: 'all', rows: plane.rows, cols: plane.rows}];
  const crumbs = $('.crumbs', box), scroll = $('.scroll', box);
  const paths = level => { // by row and column of a level
    const row = new Map(), col = new Map(), cells = new Map();
    level.rows.forEach((g, i) => g.i.forEach(n => row.set(n, i)));
    level.cols.forEach((g, i) => g.i.forEach(n => col.set(n, i)));
    for (let k = 0; k < plane.w.length; k++) {
      const r = row.get(plane.f[k]), c = col.get(plane.t[k]);
      if (r === undefined || c === undefined) continue;
      const key = r * level.cols.length + c;
      if (!cells.has(key)) cells.set(key, []);
      cells.get(key).push(k);
    }
    return cells;
  };
  const says = all => {
    const bad = all.filter(k => plane.w[k] === 'x').length, lossy = all.filter(k => plane.w[k] === 'w').length;
    const open = all.filter(k => plane.w[k] === 'u').length;
    const ms = plane.ms ? all.map(k => plane.ms[k]).filter(Boolean).sort((a, b) => a - b) : [];
    const time = ms.length ? ' ' + (ms[ms.length >> 1] < 10 ? ms[ms.length >> 1].toFixed(1) : Math.round(ms[ms.length >> 1])) + ' ms' : '';
    if (bad) return ['bad' + (1 + Math.floor(bad * 3 / all.length)), bad === all.length ? 'all ' + bad + ' fail' : bad + ' of ' + all.length + ' fail'];
    if (open) return ['open', open + ' of ' + all.length + ' unknown'];
    if (lossy) return ['warn', lossy + ' of ' + all.length + ' lossy'];
    return ['good', 'ok' + time];
  };
  const split = (nodes, ends, all) => { // the worst first, the others together
    const failed = new Map();
    for (const k of all) if (plane.w[k] === 'x') for (const n of ends(k)) failed.set(n, (failed.get(n) || 0) + 1);
    const name = n => data.nodes[n].n;
    const order = [...nodes].sort((a, b) => (failed.get(b) || 0) - (failed.get(a) || 0) || (name(a) < name(b) ? -1 : 1));
    let single = order.length;
    if (single > mostSingle) for (single = mostBad; single > 0 && !failed.get(order[single - 1]);) single--;
    const out = order.slice(0, single).map(n => ({n: name(n), i: [n]}));
    const rest = order.slice(single), size = Math.ceil(rest.length / mostBlocks);
    for (let i = 0; i < rest.length; i += size) {
      const block = rest.slice(i, i + size);
      out.push({n: block.length === 1 ? name(block[0]) : block.length + ' nodes from ' + name(block[0]), i: block});
    }
    return out;
  };
  const down = (level, r, c, all) => {
    const from = level.rows[r], to = level.cols[c];
    if (from.i.length === 1 && to.i.length === 1) return pair(from.n, to.n, all);
    levels.push({title: from.n + ' to ' + to.n, rows: split(from.i, k => [plane.f[k]], all), cols: split(to.i, k => [plane.t[k]], all)});
    show();
  };
  const pair = (from, to, all) => {
    const out = el('ul', 'seen pair');
    for (const k of all) {
      const word = {o: 'ok', w: 'lossy', u: 'unknown', x: 'fail'}[plane.w[k]];
      const ms = plane.ms && plane.ms[k] ? plane.ms[k] + ' ms' : '';
      out.append(el('li', classOf(word), el('b', '', word), ' ', el('span', '', from + ' to ' + to), ' ', el('code', '', (plane.saw && plane.saw[k]) || ms)));
    }
    $('.pair', box)?.remove();
    box.append(out);
  };
  const arm = () => { // the cells of the table that is there
    const level = levels.at(-1), cells = paths(level), table = $('table', scroll);
    $$('tbody tr', table).forEach((tr, r) => $$('td:not(.sum)', tr).forEach((td, c) => {
      const all = cells.get(r * level.cols.length + c);
      if (!all) return;
      td.tabIndex = 0;
      td.setAttribute('role', 'button');
      td.setAttribute('aria-label', level.rows[r].n + ' to ' + level.cols[c].n + ': ' + says(all)[1]);
      td.onclick = () => down(level, r, c, all);
      td.onkeydown = ev => { if (ev.key === 'Enter' || ev.key === ' ') { ev.preventDefault(); ev.stopPropagation(); td.onclick(); } };
    }));
  };
  const show = () => {
    const level = levels.at(-1), cells = paths(level), head = el('tr', '', el('td')), tbody = el('tbody');
    const th = (name, scope) => { const t = el('th', '', el('span', '', name)); t.scope = scope; t.title = name; return t; };
    level.cols.forEach(g => head.append(th(g.n, 'col')));
    head.append(th('all', 'col'));
    level.rows.forEach((g, r) => {
      const tr = el('tr', '', th(g.n, 'row')), sum = [];
      level.cols.forEach((to, c) => {
        const all = cells.get(r * level.cols.length + c);
        const [cls, text] = all ? says(all) : ['none', ''], td = el('td', cls, el('span', '', text));
        if (all) { td.title = g.n + ' to ' + to.n + ': ' + text; sum.push(...all); }
        tr.append(td);
      });
      tr.append(el('td', 'sum', sum.length ? says(sum)[1] : ''));
      tbody.append(tr);
    });
    scroll.replaceChildren(el('table', 'heat' + (level.cols.length > denseFrom ? ' dense' : ''), el('thead', '', head), tbody));
    crumbs.replaceChildren(...levels.map((l, i) => {
      const b = el('button', '', l.title);
      b.type = 'button';
      b.disabled = i === levels.length - 1;
      b.onclick = () => { levels.length = i + 1; show(); };
      return b;
    }).flatMap(b => [b, ' ']), 'from each row to each column');
    $('.pair', box)?.remove();
    arm();
  };
  arm();
}

async function load() {
  const packed = $('#data');
  if (!packed) return;
  const text = atob(JSON.parse(packed.textContent).replace(/-/g, '+').replace(/_/g, '/'));
  const bytes = Uint8Array.from(text, c => c.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  data = JSON.parse(await new Response(plain).text());
  sorted = [...data.nodes].sort((a, b) => rank(a.w) - rank(b.w));
  $$('.squares').forEach(pointing);
  $$('.matrix').forEach((box, i) => matrix(box, data.planes[i]));
  find();
  document.documentElement.dataset.loaded = 'yes';
}

// Keys.
let at = -1;
function go(step) {
  const all = $$('.item').filter(e => e.getClientRects().length);
  if (!all.length) return;
  at = all.indexOf(document.activeElement?.closest('.item')) < 0 ? at : all.indexOf(document.activeElement.closest('.item'));
  at = Math.max(0, Math.min(all.length - 1, at + step));
  all[at].focus();
  all[at].scrollIntoView({block: 'nearest'});
}
function toggle() {
  const d = document.activeElement?.closest('.item')?.querySelector('details');
  if (d) d.open = !d.open;
}
function openAll() {
  const all = $$('main details'), open = all.some(d => !d.open);
  all.forEach(d => { d.open = open; });
}
function theme() {
  const root = document.documentElement, dark = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  root.dataset.theme = (root.dataset.theme || dark) === 'dark' ? 'light' : 'dark';
}
const help = $('#help');
document.addEventListener('keydown', ev => {
  if (ev.ctrlKey || ev.metaKey || ev.altKey || help.open) return;
  if (ev.key === 'Escape') { search.value = ''; search.blur(); find(); return; }
  if (ev.target.matches('input, button')) return;
  const does = {'/': () => search.focus(), j: () => go(1), k: () => go(-1), o: toggle, Enter: toggle, e: openAll, d: theme, '?': () => help.showModal()}[ev.key];
  if (!does || ev.key === 'Enter' && !ev.target.matches('.item')) return;
  ev.preventDefault();
  does();
});
search.addEventListener('input', find);
$('#theme').onclick = theme;
$('#keys').onclick = () => help.showModal();

// Commands are copied whole.
if (navigator.clipboard) for (const pre of $$('pre.commands')) {
  const text = pre.textContent, b = el('button', '', 'copy');
  b.type = 'button';
  b.onclick = async () => { await navigator.clipboard.writeText(text); b.textContent = 'copied'; };
  pre.append(b);
}
// On paper the evidence is open.
let closed = [];
addEventListener('beforeprint', () => { closed = $$('.evidence:not([open])'); closed.forEach(d => { d.open = true; }); });
addEventListener('afterprint', () => closed.forEach(d => { d.open = false; }));
load().catch(why => { pointed.textContent = 'The list of nodes cannot be read here: ' + why.message; });
})();
