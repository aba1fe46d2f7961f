/** @file What must hold of every report page, whoever made it. Runs on those that `FSTRIAL_PAGES` names, separated by colons. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { after, before } from 'node:test';
import { AxeBuilder } from '@axe-core/playwright';
import { faultsOf, launch, open, parseCsv, test, unfold } from './browser.mjs';

const paths = (process.env.FSTRIAL_PAGES || '').split(':').filter(Boolean);
assert.ok(paths.length, 'FSTRIAL_PAGES names no page');
const PLAIN_WRONG = /undefined|NaN|\[object|Infinity/;

let browser;
before(async () => {
  browser = await launch();
});
after(async () => {
  await browser.close();
});

/** A test for each page. */
function each(what, run) {
  for (const path of paths) test(`${basename(path)}: ${what}`, () => run(path));
}

/** What can be seen of every drawing. */
const drawings = (page) =>
  page.$$eval('figure svg', (all) =>
    all
      .filter((svg) => svg.getClientRects().length)
      .map((svg) => {
        const room = svg.getBoundingClientRect();
        const isOut = ({ left, right, top, bottom }) =>
          left < room.left - 1 || right > room.right + 1 || top < room.top - 1 || bottom > room.bottom + 1;
        const texts = [...svg.querySelectorAll('text')];
        return {
          id: svg.closest('figure').id,
          height: room.height,
          out: texts.filter((text) => isOut(text.getBoundingClientRect())).map((text) => text.textContent),
          text: texts.map((text) => text.textContent).join('|'),
          shapes: [...svg.querySelectorAll('[d]')].map((shape) => shape.getAttribute('d')).join(' '),
          marks: svg.querySelectorAll('circle, .marks, .line').length,
          role: svg.getAttribute('role'),
          label: svg.getAttribute('aria-label'),
        };
      }),
  );

for (const [width, scripts] of [
  [1400, true],
  [1400, false],
  [400, false],
]) {
  each(`every picture shows something and holds its labels, ${width} wide, scripts ${scripts}`, async (path) => {
    const opened = await open(browser, path, { width, scripts });
    const { page } = opened;
    assert.ok((await drawings(page)).length >= 1, 'a picture is seen before anything is unfolded');
    await unfold(page);
    const found = await drawings(page);
    assert.ok(found.length >= 2, `${found.length} drawings`);
    for (const { id, height, out, text, shapes, marks, role, label } of found) {
      assert.deepEqual(out, [], id);
      assert.ok(height > 50 && marks > 0, `${id}: ${height} high, ${marks} marks`);
      assert.doesNotMatch(text, PLAIN_WRONG, id);
      assert.doesNotMatch(shapes, /NaN|inf|undefined/, id);
      assert.equal(role, 'img');
      assert.ok(label.length > 15 && !PLAIN_WRONG.test(label), `${id}: ${label}`);
    }
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
    assert.deepEqual(await faultsOf(opened), []);
  });
}

each('the answer is on the first screen', async (path) => {
  const opened = await open(browser, path);
  const bottom = (selector) =>
    opened.page.locator(selector).first().evaluate((element) => element.getBoundingClientRect().bottom);
  assert.ok((await bottom('h1')) < 300);
  assert.ok(readFileSync(path).length < 500_000, 'and the page is not large');
  assert.deepEqual(await faultsOf(opened), []);
});

each('an arm that is switched off is pale in all pictures of its trial', async (path) => {
  const opened = await open(browser, path);
  const { page } = opened;
  await unfold(page);
  const pale = () =>
    page.evaluate(() => {
      const all = [...document.querySelector('.trial:has(.choose)').querySelectorAll('[data-arm="0"],[data-arms~="0"]')];
      return [all.length, all.filter((element) => getComputedStyle(element).opacity < 0.5).length];
    });
  const [all, before_] = await pale();
  assert.ok(all > 1 && before_ === 0, `${before_} of ${all}`);
  const box = page.locator('.choose input.a0').first();
  await box.uncheck();
  assert.deepEqual(await pale(), [all, all]);
  await box.check();
  assert.deepEqual(await pale(), [all, 0]);
  assert.deepEqual(await faultsOf(opened), []);
});

each('pictures are of the number of threads that is chosen', async (path) => {
  const opened = await open(browser, path);
  const { page } = opened;
  await unfold(page);
  const seen = (workload) =>
    workload.evaluate((element) =>
      [...element.querySelectorAll('.drawing[data-level]')]
        .filter((drawing) => drawing.getClientRects().length)
        .map((drawing) => drawing.dataset.level),
    );
  for (const workload of (await page.locator('.workload:has(.l1)').all()).slice(0, 3)) {
    for (const level of ['0', '1']) {
      await workload.locator(`.l${level}`).check();
      const levels = await seen(workload);
      assert.ok(levels.length > 0 && levels.every((each_) => each_ === level), `${level}: ${levels}`);
    }
  }
  assert.deepEqual(await faultsOf(opened), []);
});

each('the value under the pointer is told', async (path) => {
  const opened = await open(browser, path);
  const { page } = opened;
  await unfold(page);
  const chart = page.locator('svg.chart:visible').first();
  await chart.scrollIntoViewIfNeeded();
  await chart.hover({ position: { x: 200, y: 60 } });
  const told = await page.locator('#value').textContent();
  const names = await chart.locator('[data-y]').evaluateAll((all) => all.map((series) => series.dataset.name));
  assert.ok(names.some((name) => told.startsWith(`${name}: `)), told);
  assert.match(told, /\d/);
  assert.doesNotMatch(told, PLAIN_WRONG);
  await page.locator('svg.forest:visible circle').first().hover();
  assert.match(await page.locator('#value').textContent(), /: .*\d/);
  await page.locator('h1').hover();
  assert.equal(await page.locator('#value').textContent(), '');
  assert.deepEqual(await faultsOf(opened), []);
});

/** Files that Chromium lets a page save when a program clicks; the next is held back without a word. */
const MAX_SAVED = 10;

each('SVG and CSV of pictures hold what is drawn', async (path) => {
  const opened = await open(browser, path);
  const { page } = opened;
  await unfold(page);
  const kinds = new Map();
  for (const svg of await page.locator('figure svg:visible').all()) {
    const id = await svg.evaluate((element) => element.closest('figure').id);
    kinds.set(id.replace(/^t\d+-(s\d+-)?/, ''), svg);
  }
  const save = async (svg, kind) => {
    const button = svg.locator(`xpath=preceding-sibling::div[@class="take"]/button[.="${kind}"]`);
    const [download] = await Promise.all([page.waitForEvent('download'), button.click()]);
    assert.match(download.suggestedFilename(), new RegExp(`\\.${kind.toLowerCase()}$`));
    return readFileSync(await download.path(), 'utf8');
  };
  for (const [kind, svg] of [...kinds].slice(0, MAX_SAVED / 2)) {
    const file = await save(svg, 'SVG');
    assert.match(file, /^<svg [^>]*xmlns="http:\/\/www.w3.org\/2000\/svg"/, kind);
    assert.match(file, /stroke="rgb\(/, `${kind} has its colours`);
    const [elements, attributes, texts] = await page.evaluate((text) => {
      const all = [...new DOMParser().parseFromString(text, 'image/svg+xml').querySelectorAll('*')];
      return [
        all.map((element) => element.tagName),
        all.flatMap((element) => element.getAttributeNames()),
        all.map((element) => element.textContent),
      ];
    }, file);
    const known = ['svg', 'g', 'path', 'line', 'rect', 'circle', 'text', 'title'];
    assert.deepEqual(elements.filter((name) => !known.includes(name)), [], kind);
    assert.deepEqual(attributes.filter((name) => /^on|href/.test(name)), [], kind);
    const arms = await svg.locator('[data-arm]').evaluateAll((all) => all.map((series) => series.dataset.name));
    assert.deepEqual(arms.filter((name) => !texts.includes(name)), [], `${kind} lists its arms`);
    const rows = parseCsv(await save(svg, 'CSV'));
    const drawn = await svg.evaluate((element) =>
      [...element.querySelectorAll('[data-y], [data-value]')]
        .map((series) => (series.dataset.x ?? element.dataset.x ?? '').split(' ').length)
        .reduce((sum, count) => sum + count, 0),
    );
    assert.equal(rows.length, drawn + 1, kind);
    assert.ok(rows.every((row) => row.length === rows[0].length), `${kind}: as many fields in every row`);
    assert.doesNotMatch(rows.flat().join(' '), /NaN|Infinity|\[object/, kind);
  }
  assert.deepEqual(await faultsOf(opened), []);
});

each('is as wide as a phone, on a phone', async (path) => {
  const opened = await open(browser, path, { width: 360, height: 740 });
  const { page } = opened;
  await unfold(page);
  const widest = await page.evaluate(() => ({
    page: document.documentElement.scrollWidth,
    out: [...document.querySelectorAll('figure *')]
      .filter((element) => !element.closest('.scroll, svg') && element.getBoundingClientRect().right > 361)
      .map((element) => `${element.tagName} ${element.className}`)
      .slice(0, 5),
    letters: [...document.querySelectorAll('figure svg')]
      .filter((svg) => svg.getClientRects().length)
      .map((svg) => svg.getScreenCTM().a * parseFloat(getComputedStyle(svg).fontSize))
      .filter((size) => size < 9.5),
  }));
  assert.deepEqual(widest, { page: 360, out: [], letters: [] });
  assert.deepEqual(await faultsOf(opened), []);
});

// What a page is made of is the same in both; only contrasts are asked for again.
const EVERY_RULE = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
for (const scheme of ['light', 'dark']) {
  each(`the accessibility engine finds nothing, ${scheme}`, async (path) => {
    const opened = await open(browser, path, { scheme });
    const { page } = opened;
    await unfold(page);
    const engine = new AxeBuilder({ page });
    const asked = scheme === 'light' ? engine.withTags(EVERY_RULE) : engine.withRules(['color-contrast']);
    const { violations, passes } = await asked.analyze();
    assert.ok(
      passes.some(({ id }) => id === 'color-contrast'),
      'contrasts were looked at',
    );
    const found = violations.map(
      ({ id, nodes }) =>
        `${id}: ${nodes
          .slice(0, 3)
          .map((node) => `${node.target} ${node.failureSummary}`)
          .join('; ')}`,
    );
    assert.deepEqual(found, []);
    assert.deepEqual(await faultsOf(opened), []);
  });
}

each('changes with the colours that are asked for, and prints light', async (path) => {
  const opened = await open(browser, path);
  const { page } = opened;
  await unfold(page);
  const looks = () =>
    page.evaluate(() => [
      getComputedStyle(document.documentElement).backgroundColor,
      getComputedStyle(document.querySelector('svg text')).fill,
      getComputedStyle(document.querySelector('svg .marks')).fill,
    ]);
  const light = await looks();
  await page.emulateMedia({ colorScheme: 'dark' });
  const dark = await looks();
  light.forEach((colour, index) => assert.notEqual(colour, dark[index]));
  await page.emulateMedia({ media: 'print' });
  assert.deepEqual(await looks(), light);
  const pdf = await page.pdf({ format: 'A4' });
  assert.equal(pdf.subarray(0, 5).toString(), '%PDF-');
  assert.equal(await page.locator('.take:visible').count(), 0, 'buttons are not printed');
  assert.equal(await page.locator('details:not([open]):visible').count(), 0, 'what is folded is not printed');
  assert.deepEqual(await faultsOf(opened), []);
});

each('every control is reached with the keyboard, and shows where one is', async (path) => {
  const opened = await open(browser, path);
  const { page } = opened;
  const seen = new Set();
  await unfold(page);
  await page.locator('.choose input').first().focus();
  for (let step = 0; step < 40; step += 1) {
    await page.keyboard.press('Tab');
    const [kind, outlined, what] = await page.evaluate(() => {
      const style = getComputedStyle(document.activeElement);
      const outlined_ = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
      return [document.activeElement.tagName, outlined_, document.activeElement.outerHTML.slice(0, 80)];
    });
    if (kind === 'BODY') break;
    seen.add(kind);
    assert.ok(outlined, `focus is seen on ${what}`);
  }
  ['INPUT', 'BUTTON', 'SUMMARY'].forEach((kind) => assert.ok(seen.has(kind), `${kind} of ${[...seen]}`));
  assert.deepEqual(await faultsOf(opened), []);
});

each('an address with a picture unfolds what it is in', async (path) => {
  const opened = await open(browser, path);
  const id = await opened.page.locator('figure.plot').last().getAttribute('id');
  await opened.page.context().close();
  const linked = await open(browser, path, { hash: `#${encodeURIComponent(id)}` });
  const figure = linked.page.locator(`[id="${id}"]`);
  await figure.waitFor({ state: 'visible' });
  const top = await figure.evaluate((element) => element.getBoundingClientRect().top);
  assert.ok(top > -20 && top < 900, `it is at ${top}`);
  assert.deepEqual(await faultsOf(linked), []);
});
