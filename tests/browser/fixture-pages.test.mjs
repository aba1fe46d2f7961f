/**
 * @file What only pages with known data can show: the figures in tooltips, words for what is missing, names that
 * attack, and the largest page.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { drawAll, faultsOf, launch, open, test } from './browser.mjs';
import { HOSTILE, small, writePages } from './fixture.mjs';

const folder = mkdtempSync(join(tmpdir(), 'fstrial-pages-'));
const pages = writePages(folder);
let browser;
before(async () => {
  browser = await launch();
});
after(async () => {
  await browser.close();
  rmSync(folder, { recursive: true });
});

/** The tooltip at a place of a figure's chart, in shares of its width and height. */
async function tipAt(page, id, x, y) {
  const chart = page.locator(`[id="${id}"] .chart`);
  await chart.scrollIntoViewIfNeeded();
  const box = await chart.boundingBox();
  await page.mouse.move(box.x + box.width * x - 3, box.y + box.height * y);
  await page.mouse.move(box.x + box.width * x, box.y + box.height * y);
  const tip = chart.locator('.tip');
  await tip.waitFor({ state: 'visible', timeout: 5000 });
  return (await tip.innerText()).replaceAll('\u00a0', ' ');
}

test('hover shows rates with their intervals', async () => {
  const opened = await open(browser, pages.small, { hash: '#t0-s0-throughput' });
  const tip = await tipAt(opened.page, 't0-s0-throughput', 0.97, 0.5);
  assert.match(tip, /16 threads/);
  for (const cell of small().trials[0].sections[0].cells.filter((each) => each.threads === 16)) {
    const [rate, low, high] = [cell.rate, ...cell.rate_interval].map((each) => (each / 1000).toPrecision(4));
    assert.ok(tip.includes(`${rate} [${low}, ${high}] k op/s`), `${rate} in ${tip}`);
  }
  await opened.page.keyboard.press('Escape');
  await opened.page.locator('[id="t0-s0-throughput"] .tip').waitFor({ state: 'hidden', timeout: 5000 });
  assert.deepEqual(await faultsOf(opened), []);
});

test('hover tells percentiles, shares, seconds, rounds, stages and bars', async () => {
  const opened = await open(browser, pages.small);
  const { page } = opened;
  await drawAll(page);
  const [cell] = small().trials[0].sections[0].cells.filter((each) => each.threads === 16 && each.arm === 0);
  const p999 = cell.latency.find(([quantile]) => quantile === 0.999)[1];
  assert.ok((await tipAt(page, 't0-s0-latency', 0.62, 0.5)).includes('p99.9'));
  assert.ok((await tipAt(page, 't0-s0-latency', 0.62, 0.5)).includes((p999 / 1e6).toPrecision(4)));
  assert.match(await tipAt(page, 't0-s0-cdf', 0.4, 0.5), /done within \d+ µs[\s\S]*ext4\s+9\d\.\d+ %/);
  assert.match(await tipAt(page, 't0-s0-series', 0.14, 0.5), /at [\d.]+ s, warm-up/);
  assert.match(
    await tipAt(page, 't0-s0-rounds', 0.9, 0.5),
    /round 1[12][\s\S]*this round\s+[\d.]+[\s\S]*interval\s+[\d.]+ to [\d.]+/,
  );
  assert.match(await tipAt(page, 't0-s0-stages', 0.6, 0.15), /mkfs[\s\S]*xfs\s+160 ms/);
  assert.ok((await tipAt(page, 't0-s0-cpu', 0.25, 0.5)).includes('2.100 µs'));
  assert.match(
    await tipAt(page, 't0-s0-original', 0.5, 0.5),
    /4 threads[\s\S]*ext4, here[\s\S]*then, ext4\s+9\.100 k tps/,
  );
  // At the third of twelve rounds every arm has a run, and the order is that of the round.
  const orders = (await tipAt(page, 't0-s0-runs', 0.26, 0.5)).match(/run \d of the round/g);
  assert.deepEqual(orders, ['run 1 of the round', 'run 2 of the round', 'run 3 of the round']);
  const mean = (await tipAt(page, 't0-s0-latencies', 0.97, 0.5)).replaceAll(',', '');
  assert.match(mean, /mean latency 16 threads/);
  assert.ok(mean.includes((cell.latency_mean / 1e3).toPrecision(4)), mean);
  assert.match(await tipAt(page, 't0-s0-tradeoff', 0.15, 0.5), /near [\s\S]*ext4, 1 thread\b/);
  assert.deepEqual(await faultsOf(opened), []);
});

test('a verdict with the first interval has its bar at the last round', async () => {
  const opened = await open(browser, pages.awkward);
  const { page } = opened;
  await drawAll(page);
  const bars = await page
    .locator('[id="t0-s0-rounds"] .chart svg')
    .evaluate((svg) => svg.querySelectorAll('path[stroke="#0b5394"][stroke-width="1.25"]').length);
  assert.equal(bars, 3, 'a line with two caps');
  assert.deepEqual(await faultsOf(opened), []);
});

test('a level that is chosen is chosen for the whole workload, and not for others', async () => {
  const opened = await open(browser, pages.small);
  const { page } = opened;
  await drawAll(page);
  await page.locator('[id="t0-s0-latency"] select').selectOption('4');
  await drawAll(page);
  assert.equal(await page.locator('[id="t0-s0-cdf"] select').inputValue(), '4');
  assert.equal(await page.locator('[id="t0-s1-cdf"] select').inputValue(), '16');
  assert.match(await page.locator('[id="t0-s0-cdf"] .chart').getAttribute('aria-label'), /with 4 threads/);
  assert.deepEqual(await faultsOf(opened), []);
});

test('what failed, what cannot be, and what is not equal is said', async () => {
  const opened = await open(browser, pages.awkward);
  const { page } = opened;
  await drawAll(page);
  const notes = await page.locator('[id="t0-s1-throughput"] .notes').first().innerText();
  assert.match(notes, /xfs failed with 8 threads\./);
  assert.match(notes, /raw cannot do this: the bare device has no files/);
  assert.match(await page.locator('[id="t0-s1-rounds"] .notes').first().innerText(), /unequal.*nobarrier/);
  const decision = await page.locator('[id="t0-s1-rounds"] .notes').first().innerText();
  assert.match(decision.replaceAll('\u00a0', ' '), /undecided, ratio [\d.]+ \[[\d.]+, [\d.]+\] \(95 %\)/);
  assert.match(decision, /37 more comparisons/);
  assert.match(await page.locator('[id="t0-s2-throughput"] .notes').first().innerText(), /Nothing was recorded/);
  assert.deepEqual(await faultsOf(opened), []);
});

test('trials side by side: the same arm of each', async () => {
  const opened = await open(browser, pages.several);
  await drawAll(opened.page);
  const label = await opened.page.locator('[id="t0-s0-compare"] .chart').getAttribute('aria-label');
  assert.match(label, /xfs, #21 Linux 6\.1\.0-31-amd64, 16 threads/);
  assert.match(label, /xfs, #34 Linux 6\.12\.9, 16 threads/);
  assert.match(label, /f2fs, #34/);
  const colour = (id, place) =>
    opened.page.locator(`[id="${id}"] .legend button`).nth(place).locator('path').nth(1).getAttribute('fill');
  assert.equal(await colour('t0-s0-throughput', 1), await colour('t1-s0-throughput', 0), 'xfs has one colour in both');
  assert.deepEqual(await faultsOf(opened), []);
});

test('names that attack are shown as they are and do nothing', async () => {
  const opened = await open(browser, pages.hostile);
  const { page } = opened;
  await drawAll(page);
  const names = await page
    .locator('[id="t0-s0-throughput"] .legend button')
    .evaluateAll((buttons) => buttons.map((button) => button.textContent));
  assert.deepEqual(names, HOSTILE);
  const tip = await tipAt(page, 't0-s0-throughput', 0.9, 0.5);
  assert.ok(tip.includes('</script><script>'), tip);
  assert.equal(await page.locator('figure.plot img, figure.plot script, figure.plot svg svg').count(), 0);
  await page.locator('[id="t0-s0-rounds"] details summary').click();
  await page.waitForTimeout(300);
  assert.deepEqual(await faultsOf(opened), []);
});

test('the largest page opens and scrolls', async (t) => {
  const began = Date.now();
  const opened = await open(browser, pages.big);
  const { page } = opened;
  const openedMs = Date.now() - began;
  const { tasks, scrolledMs, longest } = await page.evaluate(async () => {
    const long = [];
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => long.push(entry.duration))).observe({
      type: 'longtask',
    });
    const from = performance.now();
    for (let at = 0; at < document.documentElement.scrollHeight; at += 600) {
      window.scrollTo(0, at);
      await new Promise((done) => {
        requestAnimationFrame(() => setTimeout(done, 0));
      });
    }
    while (document.querySelector('figure.plot:not(.drawn)') && performance.now() - from < 60_000) {
      document.querySelector('figure.plot:not(.drawn)').scrollIntoView();
      await new Promise((done) => {
        setTimeout(done, 20);
      });
    }
    return { scrolledMs: performance.now() - from, tasks: long.length, longest: Math.max(0, ...long) };
  });
  const toggleMs = await page.evaluate(() => {
    const from = performance.now();
    document.querySelector('.legend button').click();
    return performance.now() - from;
  });
  t.diagnostic(
    `opened in ${openedMs} ms, scrolled in ${Math.round(scrolledMs)} ms with ${tasks} long tasks, the longest ` +
      `${Math.round(longest)} ms; an arm hidden in ${Math.round(toggleMs)} ms`,
  );
  assert.equal(await page.locator('figure.plot.drawn').count(), 120);
  assert.deepEqual(await faultsOf(opened), []);
});
