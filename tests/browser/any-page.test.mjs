/**
 * @file What must hold of every report page, whoever made it. Runs on the pages of the fixture, or on those that
 * `FSTRIAL_PAGES` names, separated by colons.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, before } from 'node:test';
import { AxeBuilder } from '@axe-core/playwright';
import { dataOf, drawAll, faultsOf, launch, open, parseCsv, test } from './browser.mjs';
import { writePages } from './fixture.mjs';

const given = (process.env.FSTRIAL_PAGES || '').split(':').filter(Boolean);
const folder = mkdtempSync(join(tmpdir(), 'fstrial-pages-'));
const { big, ...made } = writePages(folder);
const paths = given.length ? given : Object.values(made);
const PLAIN_WRONG = /undefined|NaN|\[object|Infinity/;

let browser;
before(async () => {
  browser = await launch();
});
after(async () => {
  await browser.close();
  rmSync(folder, { recursive: true });
});

/** The name of a page in the tests: its file's, or the whole path where several files are called so. */
function label(path) {
  const alike = paths.filter((other) => basename(other) === basename(path));
  return alike.length > 1 ? path : basename(path);
}

/** A test for each page. */
function each(what, run) {
  for (const path of paths) test(`${label(path)}: ${what}`, () => run(path));
}

each('every figure draws, and says what it shows', async (path) => {
  const opened = await open(browser, path);
  const { page } = opened;
  await drawAll(page);
  const figures = await page.$$eval('figure.plot', (elements) =>
    elements.map((element) => ({
      id: element.id,
      controls: element.querySelectorAll('.tools button').length,
      hidden: element.querySelector('.chart').hidden,
      notes: element.querySelector('.notes').textContent,
      marks: element.querySelectorAll('.chart svg path, .chart svg rect, .chart svg polyline, .chart svg polygon')
        .length,
      text: [...element.querySelectorAll('.chart svg text')].map((text) => text.textContent).join('|'),
      drawing: [...element.querySelectorAll('.chart svg [d]')].map((shape) => shape.getAttribute('d')).join(' '),
      role: element.querySelector('.chart').getAttribute('role'),
      label: element.querySelector('.chart').getAttribute('aria-label'),
    })),
  );
  assert.ok(figures.length > 0, 'the page has figures');
  assert.ok(
    figures.some((figure) => !figure.hidden),
    'and some have something to show',
  );
  for (const figure of figures) {
    assert.equal(figure.controls, 2, `${figure.id} has its buttons`);
    if (figure.hidden) {
      assert.match(figure.notes, /Nothing was recorded/, `${figure.id} says why it is empty`);
      continue;
    }
    assert.ok(figure.marks > 3, `${figure.id} has marks`);
    assert.doesNotMatch(figure.text, PLAIN_WRONG, `${figure.id}: ${figure.text}`);
    assert.doesNotMatch(figure.drawing, /NaN|undefined|Infinity/, `${figure.id} is drawn at known places`);
    assert.equal(figure.role, 'img');
    assert.ok(figure.label.length > 15 && !PLAIN_WRONG.test(figure.label), `${figure.id}: ${figure.label}`);
  }
  assert.deepEqual(await faultsOf(opened), []);
});

each('tables beside the figures have rows', async (path) => {
  const opened = await open(browser, path);
  await drawAll(opened.page);
  const tables = await opened.page.$$eval('figure.plot', async (elements) => {
    elements.forEach((element) => {
      element.querySelector('details').open = true;
    });
    await new Promise((done) => {
      setTimeout(done, 300);
    });
    return elements.map((element) => [
      element.id,
      element.querySelector('.chart').hidden,
      element.querySelectorAll('tbody tr').length,
      [...element.querySelectorAll('th, td')].map((cell) => cell.textContent).join('|'),
    ]);
  });
  for (const [id, empty, rows, text] of tables) {
    if (!empty) assert.ok(rows > 0, `${id} has rows`);
    assert.doesNotMatch(text, PLAIN_WRONG, id);
  }
  assert.deepEqual(await faultsOf(opened), []);
});

each('every control changes something and breaks nothing', async (path) => {
  const opened = await open(browser, path);
  const { page } = opened;
  await drawAll(page);
  const unchanged = await page.evaluate(async () => {
    const stuck = [];
    const drawing = (figure) => figure.querySelector('.chart').innerHTML + figure.querySelector('.notes').innerHTML;
    // Without numbers that the library gives out, and whatever lies over what: bands have no order.
    const shapes = (text) => text.replaceAll(/zr\d+-?[a-z]*\d*/g, '').split('<').sort().join('<');
    for (const figure of document.querySelectorAll('figure.plot')) {
      if (figure.querySelector('.chart').hidden) continue;
      figure.scrollIntoView({ block: 'center' });
      await new Promise((done) => {
        setTimeout(done, 100);
      });
      for (const select of figure.querySelectorAll('.tools select')) {
        const first = select.selectedIndex;
        const pictures = new Set();
        for (let index = 0; index < Math.min(select.options.length, 12); index += 1) {
          select.selectedIndex = index;
          select.dispatchEvent(new Event('change', { bubbles: true }));
          pictures.add(drawing(figure));
        }
        if (pictures.size < 2) stuck.push(`${figure.id}: select`);
        select.selectedIndex = first;
        select.dispatchEvent(new Event('change', { bubbles: true }));
      }
      const box = figure.querySelector('.tools input[type=checkbox]');
      if (!box) continue;
      const was = drawing(figure);
      box.click();
      if (drawing(figure) === was) stuck.push(`${figure.id}: log`);
      box.click();
      if (shapes(drawing(figure)) !== shapes(was)) stuck.push(`${figure.id}: log and back`);
    }
    return stuck;
  });
  assert.deepEqual(unchanged, []);
  assert.deepEqual(await faultsOf(opened), []);
});

each('an arm that is hidden in one figure is hidden in all of its trial', async (path) => {
  const opened = await open(browser, path);
  const { page } = opened;
  await drawAll(page);
  /** What the legends and drawings of the first trial's figures are now, wherever on the page they are. */
  const state = async () => {
    await drawAll(page);
    return page.evaluate(() => {
      const all = [...document.querySelectorAll('figure.plot')];
      return all
        .filter((figure) => figure.dataset.trial === all[0].dataset.trial && figure.querySelector('.legend'))
        .map((figure) => ({
          id: figure.id,
          plot: figure.dataset.plot,
          hidden: figure.querySelector('.chart').hidden,
          picture: figure.querySelector('.chart').innerHTML,
          pressed: [...figure.querySelectorAll('.legend button')].map(
            (button) => button.getAttribute('aria-pressed') === 'true',
          ),
        }));
    });
  };
  const click = (arms) =>
    page.evaluate((numbers) => {
      const buttons = document.querySelector('figure.plot .legend').querySelectorAll('button');
      (numbers || [...buttons.keys()].slice(1)).forEach((number) => buttons[number].click());
    }, arms);
  const full = await state();
  await click([0]);
  const without = await state();
  assert.ok(without.every((figure) => !figure.pressed[0] && figure.pressed.slice(1).every(Boolean)));
  assert.ok(
    without.some((figure, index) => figure.picture !== full[index].picture),
    'drawings change',
  );
  await click(null);
  assert.deepEqual(
    (await state()).filter((figure) => !figure.hidden && figure.plot !== 'original').map((figure) => figure.id),
    [],
  );
  await click([0]);
  await click(null);
  const back = await state();
  assert.deepEqual(
    back.map((figure) => figure.hidden),
    full.map((figure) => figure.hidden),
  );
  assert.ok(back.every((figure) => figure.pressed.every(Boolean)));
  assert.deepEqual(await faultsOf(opened), []);
});

/** Files that Chromium lets a page save when a program clicks; the next is held back without a word. */
const MAX_SAVED = 10;

each('SVG and CSV of every kind of figure have content', async (path) => {
  const types = ['svg', 'csv'];
  let opened = await open(browser, path);
  await drawAll(opened.page);
  const kinds = new Map(
    (
      await opened.page.$$eval('figure.plot', (elements) =>
        elements
          .filter((element) => !element.querySelector('.chart').hidden)
          .map((element) => [element.dataset.plot, element.id]),
      )
    ).reverse(),
  );
  let saved = 0;
  for (const [plot, id] of kinds) {
    if (saved + types.length > MAX_SAVED) {
      assert.deepEqual(await faultsOf(opened), []);
      opened = await open(browser, path);
      await drawAll(opened.page);
      saved = 0;
    }
    const content = {};
    for (const [index, type] of types.entries()) {
      const [download] = await Promise.all([
        opened.page.waitForEvent('download'),
        opened.page.locator(`[id="${id}"] .tools button`).nth(index).click(),
      ]);
      saved += 1;
      assert.equal(download.suggestedFilename(), `${id}.${type}`);
      content[type] = readFileSync(await download.path());
    }
    const svg = content.svg.toString();
    assert.match(svg, /^<svg[^>]* width="900"/, plot);
    assert.ok(svg.endsWith('</svg>') && svg.includes('<path'), plot);
    assert.doesNotMatch(svg.replaceAll(/<text[^>]*>[^<]*</g, ''), /NaN|undefined|onload|onerror|<script|<img/, plot);
    const rows = parseCsv(content.csv.toString());
    assert.ok(rows.length > 1, plot);
    assert.ok(
      rows.every((row) => row.length === rows[0].length),
      `${plot}: as many fields in every row`,
    );
    assert.doesNotMatch(content.csv.toString(), /NaN|Infinity|\[object/, plot);
  }
  assert.deepEqual(await faultsOf(opened), []);
});

each('the CSV of throughput is the data', async (path) => {
  const opened = await open(browser, path);
  const { page } = opened;
  const data = dataOf(path);
  for (const id of await page.$$eval('figure.plot[data-plot=throughput]', (elements) =>
    elements.slice(0, 3).map((element) => element.id),
  )) {
    const figure = page.locator(`[id="${id}"]`);
    await figure.scrollIntoViewIfNeeded();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      figure.locator('.tools button').nth(1).click(),
    ]);
    const [header, ...rows] = parseCsv(readFileSync(await download.path(), 'utf8'));
    assert.deepEqual(header, ['arm', 'threads', 'rate', 'rate_low', 'rate_high', 'unit', 'runs', 'note']);
    const trial = data.trials[await figure.evaluate((element) => element.dataset.trial)];
    const section = trial.sections[await figure.evaluate((element) => element.dataset.section)];
    assert.equal(rows.length, section.cells.length);
    for (const cell of section.cells) {
      const [row] = rows.filter((each_) => each_[0] === trial.arms[cell.arm] && each_[1] === String(cell.threads));
      const number = (value) => (value === undefined || value === null ? '' : String(value));
      assert.deepEqual(row.slice(2, 7), [
        number(cell.rate),
        ...(cell.rate_interval || [null, null]).map(number),
        section.unit,
        number(cell.runs),
      ]);
    }
  }
  assert.deepEqual(await faultsOf(opened), []);
});

each('is as wide as a phone, on a phone', async (path) => {
  const opened = await open(browser, path, { width: 360, height: 740 });
  const { page } = opened;
  await drawAll(page);
  const widest = await page.evaluate(() => ({
    page: document.documentElement.scrollWidth,
    out: [...document.querySelectorAll('figure *')]
      .filter((element) => !element.closest('.scroll, svg') && element.getBoundingClientRect().right > 361)
      .map((element) => `${element.tagName} ${element.className}`)
      .slice(0, 5),
  }));
  assert.deepEqual(widest, { page: 360, out: [] });
  assert.deepEqual(await faultsOf(opened), []);
});

// What a page is made of is the same in both; only contrasts are asked for again.
const EVERY_RULE = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
for (const scheme of ['light', 'dark']) {
  each(`the accessibility engine finds nothing, ${scheme}`, async (path) => {
    const opened = await open(browser, path, { scheme });
    const { page } = opened;
    await drawAll(page);
    await page.$$eval('figure.plot details', (elements) =>
      elements.slice(0, 3).forEach((element) => {
        element.open = true;
      }),
    );
    await page.waitForTimeout(300);
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

each('changes with the colours that are asked for', async (path) => {
  const opened = await open(browser, path);
  const { page } = opened;
  await drawAll(page);
  const looks = () =>
    page.evaluate(() => [
      getComputedStyle(document.documentElement).backgroundColor,
      [...document.querySelectorAll('.chart:not([hidden]) svg text')][0].getAttribute('fill') ||
        [...document.querySelectorAll('.chart:not([hidden]) svg text')][0].style.fill,
    ]);
  const light = await looks();
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.waitForTimeout(300);
  await drawAll(page);
  const dark = await looks();
  assert.notEqual(light[0], dark[0]);
  assert.notEqual(light[1], dark[1]);
  assert.deepEqual(await faultsOf(opened), []);
});

each('prints with every figure, light', async (path) => {
  const opened = await open(browser, path, { scheme: 'dark' });
  const { page } = opened;
  // Not scrolled: most figures are still to be drawn when printing begins.
  const pdf = await page.pdf({ format: 'A4' });
  assert.equal(pdf.subarray(0, 5).toString(), '%PDF-');
  assert.ok(pdf.length > 20_000);
  assert.equal(await page.locator('figure.plot:not(.drawn):visible').count(), 0);
  await page.emulateMedia({ media: 'print' });
  await page.setViewportSize({ width: 700, height: 1000 });
  await page.waitForTimeout(500);
  const sizes = await page.$$eval('figure.plot', (figures) =>
    figures
      .filter((figure) => !figure.querySelector('.chart').hidden)
      .map((figure) => {
        const [drawing, room] = [figure.querySelector('.chart svg'), figure].map((each_) =>
          each_.getBoundingClientRect(),
        );
        const fill = figure.querySelector('.chart svg text').getAttribute('fill');
        return {
          id: figure.id,
          fits: drawing.width <= room.width + 1 && drawing.bottom <= room.bottom + 1,
          high: drawing.height > 50,
          fill,
        };
      }),
  );
  assert.deepEqual(
    sizes.filter(({ fits, high }) => !fits || !high),
    [],
  );
  assert.ok(
    sizes.every(({ fill }) => !fill || fill === '#5a6169' || fill === '#1c1f22'),
    'printed in the colours of paper',
  );
  assert.deepEqual(await faultsOf(opened), []);
});

each('every control can be reached and used with the keyboard, and shows where one is', async (path) => {
  const opened = await open(browser, path);
  const { page } = opened;
  const figure = page.locator('figure.plot').first();
  await figure.scrollIntoViewIfNeeded();
  await figure.locator('.chart').waitFor({ state: 'attached' });
  const expected = await figure
    .locator('.tools select, .tools input, .tools button, .tools a, .legend button[tabindex="0"], summary')
    .count();
  await figure.locator('.tools').locator('select, input, button').first().focus();
  let reached = 0;
  for (let step = 0; step < expected + 2; step += 1) {
    const state = await page.evaluate(() => {
      const active = document.activeElement;
      const style = getComputedStyle(active);
      return {
        inside: active.closest('figure.plot') === document.querySelector('figure.plot'),
        outline: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1,
        what: active.outerHTML.slice(0, 80),
      };
    });
    if (!state.inside) break;
    reached += 1;
    if (step > 0) assert.ok(state.outline, `focus is seen on ${state.what}`);
    await page.keyboard.press('Tab');
  }
  assert.equal(reached, expected);
  if (await figure.locator('.legend').count()) {
    const arms = await figure.locator('.legend button').count();
    await figure.locator('.legend button').first().focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Space');
    assert.equal(
      await figure
        .locator('.legend button')
        .nth(arms > 1 ? 1 : 0)
        .getAttribute('aria-pressed'),
      'false',
    );
  }
  assert.deepEqual(await faultsOf(opened), []);
});

each('an address with a figure leads to it', async (path) => {
  const opened = await open(browser, path);
  const id = await opened.page.locator('figure.plot').last().getAttribute('id');
  await opened.page.context().close();
  const linked = await open(browser, path, { hash: `#${encodeURIComponent(id)}` });
  await linked.page.waitForTimeout(600);
  const { top, drawn } = await linked.page.evaluate((name) => {
    const figure = document.getElementById(name);
    return { top: figure.getBoundingClientRect().top, drawn: figure.classList.contains('drawn') };
  }, id);
  assert.ok(drawn);
  assert.ok(top > -20 && top < 900, `it is at ${top}`);
  assert.deepEqual(await faultsOf(linked), []);
});

for (const width of [1400, 400]) {
  each(`without scripts no box is empty, and drawings hold their labels, ${width} wide`, async (path) => {
    const opened = await open(browser, path, { width, scripts: false });
    const { page } = opened;
    assert.equal(await page.locator('figure.plot:visible').count(), 0, 'what only a script fills is not shown');
    assert.equal(await page.locator('section.overview:visible').count(), 0, 'nor a heading of nothing');
    const found = await page.evaluate(() => {
      const seen = [...document.querySelectorAll('svg.forest')].filter((svg) => svg.getClientRects().length);
      return {
        wide: document.documentElement.scrollWidth,
        drawings: seen.map((svg) => {
          const room = svg.getBoundingClientRect();
          const isOut = ({ left, right, top, bottom }) =>
            left < room.left - 1 || right > room.right + 1 || top < room.top - 1 || bottom > room.bottom + 1;
          return {
            out: [...svg.querySelectorAll('text')]
              .filter((text) => isOut(text.getBoundingClientRect()))
              .map((text) => text.textContent),
            role: svg.getAttribute('role'),
            label: svg.getAttribute('aria-label'),
            values: svg.querySelectorAll('circle').length,
          };
        }),
      };
    });
    assert.equal(found.wide, width);
    for (const { out, role, label, values } of found.drawings) {
      assert.deepEqual(out, []);
      assert.equal(role, 'img');
      assert.ok(label.length > 15 && !PLAIN_WRONG.test(label), label);
      assert.ok(values > 0, label);
    }
    // Pages of the fixture are without what the program draws.
    if (given.length) assert.ok(found.drawings.length >= 2, `${found.drawings.length} drawings`);
    assert.deepEqual(await faultsOf(opened), []);
  });
}
