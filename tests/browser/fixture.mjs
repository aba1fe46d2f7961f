/**
 * @file Makes report pages from made-up data, for the tests and to look at while working on the page:
 * `node fixture.mjs FOLDER` writes `small.html`, `awkward.html`, `hostile.html`, `several.html` and `big.html`.
 *
 * The style sheet, the script and the chart library are the ones that the program writes into its reports. The static
 * parts stand in for those that the program renders. Numbers are drawn from a seed: the same pages every time.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SOURCE = new URL('../../crates/fstrial/src/report/page/', import.meta.url);
const source = (name) => readFileSync(new URL(name, SOURCE), 'utf8');

/** Every plot that belongs to a section, with its heading and what it shows. */
const PLOTS = {
  throughput: ['Throughput against threads', 'Estimate over the rounds; bars and bands are 95 % intervals.'],
  latencies: ['Latency against threads', 'Mean, a percentile or the greatest.'],
  tradeoff: ['Throughput against latency', 'A point for each number of threads.'],
  runs: ['Every run', 'Each run by its round.'],
  latency: ['Latency percentiles', 'All runs pooled; the band goes from the least to the greatest single run.'],
  cdf: ['Latency, cumulative', 'Share of operations done within a time.'],
  series: ['In the course of a run', 'Median of the rounds; the band goes from the least to the greatest round.'],
  rounds: ['Round by round', 'How the ratio and its interval went until the decision.'],
  cpu: ['CPU time for each operation', 'User and system time of the load’s own threads.'],
  device: ['Written to the device', 'For each byte that the workload asked to write.'],
  space: ['Space used', 'After the load, as the filesystem counts it.'],
  stages: ['Times of the stages', 'Medians over the runs.'],
};

/** Mulberry32: small, and the same everywhere. */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** Around 1, spread by about `spread`. */
const around = (random, spread) => 1 + (random() + random() + random() - 1.5) * spread;
const counted = (count, value) => Array.from({ length: count }, (_, index) => value(index));

function makeCell(random, arm, threads, { rounds, unit, points = 60, steps = 40 }) {
  const rate = 9000 * (1 + arm * 0.11) * threads ** (0.75 - arm * 0.03) * (unit === 'B/s' ? 4096 : 1);
  const operations = unit === 'B/s' ? rate / 4096 : rate;
  const median = ((1e9 * threads) / operations) * 0.8;
  const latency = [
    [0.5, 1],
    [0.9, 1.7],
    [0.95, 2.3],
    [0.99, 5 + arm],
    [0.999, 18 + 9 * arm],
    [0.9999, 60 + 20 * arm],
    [1, 240],
  ].map(([quantile, factor]) => [
    quantile,
    ...[1, 0.9, 1.25].map((spread) => Math.round(median * factor * spread * around(random, 0.03))),
  ]);
  const typical = counted(steps, (step) => operations * (step < 8 ? 0.4 + step * 0.07 : 1) * around(random, 0.04));
  return {
    arm,
    threads,
    runs: rounds,
    rate,
    rate_interval: [rate * 0.97, rate * 1.028],
    rounds: counted(rounds, (round) => [round + 1, rate * around(random, 0.05)]),
    orders: counted(rounds, (round) => ((round + arm) % 3) + 1),
    latency_mean: Math.round(median * 1.3),
    latency,
    cdf: counted(points, (index) => [
      Math.round(median * 0.2 * 1.12 ** index),
      Number(Math.min(1, 1 / (1 + 14 * 0.72 ** (index - 5))).toFixed(6)),
    ]).concat([[Math.round(median * 400), 1]]),
    series: {
      step_seconds: 0.25,
      typical,
      low: typical.map((each) => each * 0.9),
      high: typical.map((each) => each * 1.08),
    },
    tails: {
      step_seconds: 0.25,
      p50: counted(steps, (step) => (step === 11 && arm === 1 ? 0 : median * around(random, 0.05))),
      p99: counted(steps, (step) => (step === 11 && arm === 1 ? 0 : median * 6 * around(random, 0.2))),
    },
    cpu_ns: 2100 * (1 + arm * 0.3) * threads ** 0.2,
    device_bytes: 4096 * (1.1 + arm * 0.45) + 4000 / threads,
    asked_bytes: 4096,
    space_used_bytes: 1.1e9 * (1 + arm * 0.04),
    generator_share: 0.11,
    stages: {
      mkfs: 0.08 * (arm + 1),
      mount: 0.011 * (1 + arm * 0.2),
      layout: 1.8 * threads ** 0.3,
      unmount: 0.05,
      fsck: 0.3 * (2 * arm + 1),
    },
  };
}

function makeContrast(random, a, b, threads, rounds, metric = 'throughput') {
  const truth = (1 + (a - b) * 0.06) ** (metric === 'throughput' ? 1 : -1);
  const pairs = counted(rounds, (round) => (round === 4 ? null : truth * around(random, 0.06)));
  const known = (round) => round >= 2;
  const width = (round) => 0.35 / (round + 1);
  const estimate = counted(rounds, (round) => {
    const seen = pairs.slice(0, round + 1).filter((each) => each !== null);
    return known(round) ? seen.reduce((sum, each) => sum + each, 0) / seen.length : null;
  });
  const ratio = estimate[rounds - 1];
  const interval = [ratio * (1 - width(rounds)), ratio * (1 + width(rounds))];
  const verdict = interval[0] > 1 ? 'faster' : interval[1] < 1 ? 'slower' : 'undecided';
  return {
    a,
    b,
    threads,
    metric,
    verdict,
    ratio,
    interval,
    interval_level: 0.95,
    less_is_better: metric !== 'throughput',
    course: {
      rounds: counted(rounds, (round) => round + 1),
      pairs,
      ratio: estimate,
      low: estimate.map((each, round) => each && each * (1 - width(round))),
      high: estimate.map((each, round) => each && each * (1 + width(round))),
    },
  };
}

function makeSection(random, title, arms, levels, rounds, unit = 'op/s') {
  const contrasts = levels.flatMap((threads) =>
    arms.flatMap((_, a) =>
      arms
        .slice(0, a)
        .flatMap((__, b) =>
          (threads === levels[0] ? ['throughput', 'p99'] : ['throughput']).map((metric) =>
            makeContrast(random, a, b, threads, rounds, metric),
          ),
        ),
    ),
  );
  return {
    title,
    unit,
    less_is_better: false,
    warmup_seconds: 2,
    duration_seconds: 8,
    levels,
    cells: levels.flatMap((threads) => arms.map((_, arm) => makeCell(random, arm, threads, { rounds, unit }))),
    contrasts,
  };
}

function makeTrial(seed, { name, arms, workloads, levels, rounds }) {
  const random = generator(seed);
  return {
    id: seed,
    name,
    started_at: '2026-03-01T09:30:00Z',
    kernel: 'Linux 6.1.0-31-amd64',
    device: 'image on /dev/nvme0n1 (Samsung 990 PRO)',
    compare: 'arms',
    practical: 0.03,
    arms,
    sections: workloads.map((title, index) =>
      makeSection(random, title, arms, levels, rounds, index % 2 ? 'B/s' : 'op/s'),
    ),
  };
}

const page = (trials) => ({ schema_version: 1, fstrial: '0.1.0', trials });

/** Three arms, two workloads, three levels, twelve rounds, and the table of a source. */
export function small() {
  const trial = makeTrial(12, {
    name: 'fsync-heavy writes',
    arms: ['ext4', 'xfs', 'btrfs'],
    workloads: ['log-append', 'random write 4 KiB'],
    levels: [1, 4, 16],
    rounds: 12,
  });
  trial.original = [
    {
      title: 'Table 2 of the source',
      unit: 'tps',
      columns: ['threads', 'ext4', 'XFS'],
      rows: [
        [1, 3700, 3650],
        ['4 threads', 9100, 9900],
        [16, 17000, 21500],
      ],
    },
    {
      title: 'Time to check',
      unit: 's',
      columns: ['filesystem', 'seconds'],
      rows: [
        ['ext4', 41],
        ['xfs', 12],
        ['btrfs', null],
      ],
    },
  ];
  return page([trial]);
}

/** What does not fit: one level, a failed cell, one that cannot, unequal durability, things not recorded, arms in the plural. */
export function awkward() {
  const trial = makeTrial(7, {
    name: 'odd ones',
    arms: ['ext4', 'xfs', 'raw'],
    workloads: ['one level', 'some missing', 'nothing at all'],
    levels: [4],
    rounds: 6,
  });
  const random = generator(99);
  trial.contrasts_left_out = 37;
  trial.sections[1] = makeSection(random, 'some missing', trial.arms, [1, 2, 8], 6);
  for (const cell of trial.sections[1].cells) {
    if (cell.arm === 2) Object.keys(cell).forEach((key) => !['arm', 'threads'].includes(key) && delete cell[key]);
    if (cell.arm === 2) cell.cannot = 'the bare device has no files';
    if (cell.arm === 1 && cell.threads === 8)
      Object.assign(cell, {
        failed: true,
        rate: undefined,
        rate_interval: undefined,
        latency: [],
        latency_mean: undefined,
        rounds: [],
        cdf: [],
        series: undefined,
        tails: undefined,
      });
    if (cell.arm === 0) cell.latency = (cell.latency || []).slice(0, 4);
    if (cell.arm === 1) cell.latency = (cell.latency || []).filter(([quantile]) => quantile < 0.99 || quantile === 1);
    if (cell.arm === 0) cell.asked_bytes = 0;
  }
  Object.assign(trial.sections[1].contrasts[0], {
    verdict: 'undecided',
    interval_level: undefined,
    unequal: 'ext4 was mounted with nobarrier: a power cut may cost what it reported as written',
  });
  trial.sections[1].contrasts = trial.sections[1].contrasts.filter((contrast) => contrast.a !== 2 && contrast.b !== 2);
  // Decided by the first interval that there was: nothing before it.
  for (const { course } of trial.sections[0].contrasts)
    for (const part of ['low', 'high']) course[part] = course[part].map((end, round) => (round < 5 ? null : end));
  Object.assign(trial.sections[0], { unit: 's', less_is_better: true, warmup_seconds: null, duration_seconds: null });
  for (const cell of trial.sections[0].cells)
    Object.assign(cell, { rate: cell.rate / 1e4, rate_interval: [cell.rate / 1.02e4, cell.rate / 0.98e4] });
  Object.assign(trial.sections[2], {
    contrasts: [],
    cells: trial.arms.map((_, arm) => ({ arm, threads: 4, runs: 0 })),
  });
  return page([trial]);
}

/** Text that would do harm if it were taken for HTML, script, a template or a layout. */
export const HOSTILE = [
  '<img src=x onerror="window.__pwned=1;alert(1)">',
  '</script><script>window.__pwned=2;alert(2)</script>',
  '"\'`&lt;{b}${window.__pwned=3}{a|x}',
  '\u202eמימין לשמאל\u2066',
  `${'long-name-'.repeat(20)}`,
  '__proto__',
  '=1+1\n<svg onload=alert(3)>',
];

export function hostile() {
  const text = HOSTILE[0];
  const trial = makeTrial(3, {
    name: HOSTILE[1],
    arms: HOSTILE,
    workloads: [text, HOSTILE[2]],
    levels: [1, 4],
    rounds: 5,
  });
  Object.assign(trial, { kernel: text, device: HOSTILE[4], started_at: text });
  trial.original = [
    {
      title: text,
      unit: HOSTILE[1],
      columns: [text, ...HOSTILE],
      rows: [
        [1, ...HOSTILE.map((_, index) => index + 1)],
        [4, ...HOSTILE.map(() => 9)],
      ],
    },
    {
      title: HOSTILE[1],
      unit: text,
      columns: HOSTILE,
      rows: [HOSTILE, HOSTILE.map((each, index) => (index ? index : each))],
    },
  ];
  trial.sections[1].unit = text;
  for (const section of trial.sections) {
    section.contrasts[0].unequal = text;
    section.contrasts[0].verdict = text;
    section.contrasts[1].metric = HOSTILE[1];
    for (const cell of section.cells) cell.stages = { [text]: 0.1, __proto__x: 0.2, [HOSTILE[4]]: 0.4 };
    Object.assign(section.cells[0], { failed: true, cannot: text });
  }
  return page([trial]);
}

/** Two trials of the same question on two kernels. */
export function several() {
  const [first, second] = [21, 34].map((seed) =>
    makeTrial(seed, {
      name: 'fsync-heavy writes',
      arms: ['ext4', 'xfs', 'btrfs'],
      workloads: ['log-append'],
      levels: [1, 4, 16],
      rounds: 12,
    }),
  );
  second.kernel = 'Linux 6.12.9';
  second.arms = ['xfs', 'ext4', 'f2fs'];
  return page([first, second]);
}

export function big() {
  return page([
    makeTrial(1, {
      name: 'everything',
      arms: counted(10, (index) => `arm-${'abcdefghij'[index]}`),
      workloads: counted(10, (index) => `workload ${index + 1}`),
      levels: [1, 2, 4, 8, 16, 32, 64, 128],
      rounds: 20,
    }),
  ]);
}

const escape = (text) => String(text).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
const figure = (trial, section, plot, [heading, caption]) =>
  `<figure class="plot" id="t${trial}-s${section}-${plot}" data-plot="${plot}" data-trial="${trial}" data-section="${section}">` +
  `<figcaption><h4>${heading}</h4><p>${caption}</p></figcaption></figure>`;

function matrix(trial) {
  const levels = [...new Set(trial.sections.flatMap((section) => section.levels))].sort((a, b) => a - b);
  const cell = (section, level) => {
    const contrast = section.contrasts.find((each) => each.threads === level);
    if (!contrast) return '<td class="v-cannot">–</td>';
    const loud = contrast.unequal ? ' <span class="badge unequal">unequal durability</span>' : '';
    return (
      `<td class="v-${escape(contrast.verdict)}"><b>${escape(String(trial.arms[contrast.a]).slice(0, 30))}</b> ${escape(contrast.verdict)}` +
      `<small>${contrast.ratio.toFixed(3)} [${contrast.interval.map((each) => each.toFixed(3)).join(', ')}]</small>${loud}</td>`
    );
  };
  return (
    `<div class="scroll" tabindex="0" role="group" aria-label="matrix"><table class="matrix"><thead><tr><th scope="col">workload</th>` +
    `${levels.map((level) => `<th scope="col">${level} threads</th>`).join('')}</tr></thead><tbody>` +
    trial.sections
      .map(
        (section) =>
          `<tr><th scope="row">${escape(section.title)}</th>${levels.map((level) => cell(section, level)).join('')}</tr>`,
      )
      .join('') +
    '</tbody></table></div>'
  );
}

function trialHtml(trial, index, together) {
  const sections = trial.sections
    .map(
      (section, place) =>
        `<section class="workload" id="t${index}-s${place}"><h3>${escape(section.title)}</h3>` +
        `<p>Measured for ${section.duration_seconds ?? 'as long as it takes'} s after a warm-up of ${section.warmup_seconds ?? 'no'} s.</p><div class="grid">` +
        Object.entries(PLOTS)
          .map(([plot, words]) => figure(index, place, plot, words))
          .join('') +
        (index === 0 && place === 0 && trial.original
          ? figure(index, place, 'original', ['Then and now', 'What the source published, and what is measured here.'])
          : '') +
        '</div></section>',
    )
    .join('');
  return `<section class="trial"><h2>${escape(trial.name)}</h2>${matrix(trial)}${together}
    <p><span class="key v-faster">faster</span> <span class="key v-slower">slower</span> <span class="key v-equivalent">equivalent</span>
    <span class="key v-mixed">mixed</span> <span class="key v-undecided">undecided</span></p>${sections}
    <h3>Environment</h3><dl class="facts"><dt>kernel</dt><dd>${escape(trial.kernel)}</dd><dt>device</dt><dd>${escape(trial.device)}</dd><dt>seed</dt><dd><code>0x6a1f</code></dd></dl>
    <h3>Repeat this</h3><pre class="code" tabindex="0"><code>fstrial run --seed 0x6a1f trial.toml   # ${'a line that is long '.repeat(8)}</code></pre></section>`;
}

/** The whole page. */
export function html(data) {
  const scripts = [source('vendor/echarts.min.js'), source('page.js')];
  const hashes = scripts.map((script) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`).join(' ');
  const together =
    data.trials.length > 1
      ? `<h3>Trials side by side</h3><div class="grid">${figure(0, 0, 'compare', ['Side by side', 'The same arms in different trials.'])}</div>`
      : '';
  // `<` cannot end the element or open a comment when it is written as an escape of JSON.
  const json = JSON.stringify(data).replaceAll('<', '\\u003c');
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src ${hashes}; style-src 'unsafe-inline'; img-src data: blob:">
<title>report</title><style>${source('page.css')}</style></head><body>
<header class="top"><h1>Which of ${data.trials[0].arms.length} filesystems is fastest under ${data.trials[0].sections.length} workloads?</h1>
<p>Trial #12 · 1 March 2026 · Linux 6.1.0-31-amd64 · decided after 12 rounds</p>
<div class="answer"><p><strong>xfs is faster than ext4</strong> under log-append at every level: by 6 % with one thread [4 %, 8 %], 95 % sure. Under random writes the two are equivalent: if they differ, then by less than 3 %.</p></div></header>
<main><div class="distrust"><h2>What to distrust</h2><ul><li>ext4 and xfs did not promise the same: <span class="badge unequal">unequal durability</span></li><li>The device was a file on another filesystem.</li></ul></div>
<nav class="toc" aria-label="contents"><ul>${data.trials.flatMap((trial, index) => trial.sections.map((section, place) => `<li><a href="#t${index}-s${place}">${escape(section.title)}</a></li>`)).join('')}</ul></nav>
${data.trials.map((trial, index) => trialHtml(trial, index, index === 0 ? together : '')).join('')}
<section><h2>Claims</h2><article class="claim"><h3>XFS scales better than ext4</h3><p>Said in 2011: “twice as fast with 16 threads”. Here: <span class="verdict-holds">holds</span>, 1.9 [1.8, 2.0].</p></article>
<article class="claim"><h3>ext4 checks faster</h3><p>Here: <span class="verdict-reversed">reversed</span>. <span class="pale">Then: 41 s against 12 s.</span></p></article></section></main>
<script type="application/json" id="data">${json}</script><script>${scripts[0]}</script><script>${scripts[1]}</script></body></html>
`;
}

/** Writes all pages into a folder and gives their paths by name. */
export function writePages(folder) {
  mkdirSync(folder, { recursive: true });
  return Object.fromEntries(
    Object.entries({ small, awkward, hostile, several, big }).map(([name, make]) => {
      const path = join(folder, `${name}.html`);
      writeFileSync(path, html(make()));
      return [name, path];
    }),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (!process.argv[2]) throw new Error('say which folder to write the pages to');
  for (const path of Object.values(writePages(process.argv[2]))) console.log(path);
}
