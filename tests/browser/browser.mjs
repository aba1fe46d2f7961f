/**
 * @file A browser without a network that writes down everything a page does that it should not.
 */
import { test as unlimited } from 'node:test';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const ARGUMENTS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** Longest that one step in the browser may take, and one test, in milliseconds: a browser that hangs is a failure. */
const STEP_MS = 30_000;
const TEST_MS = 120_000;

/** A test with an end. */
export const test = (name, run) => unlimited(name, { timeout: TEST_MS }, run);

/** Starts the system's Chromium, or the one that `CHROMIUM` names. */
export const launch = () =>
  chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ARGUMENTS });

/**
 * Opens a page in a context of its own.
 * @param {import('playwright-core').Browser} browser
 * @param {string} path of the file
 * @param {{width?: number, height?: number, scheme?: string, hash?: string, scripts?: boolean}} how
 * @returns {Promise<{page: import('playwright-core').Page, faults: string[]}>} `faults` grows while the page lives
 */
export async function open(
  browser,
  path,
  { width = 1280, height = 900, scheme = 'light', hash = '', scripts = true } = {},
) {
  const context = await browser.newContext({
    offline: true,
    colorScheme: scheme,
    viewport: { width, height },
    acceptDownloads: true,
    javaScriptEnabled: scripts,
  });
  context.setDefaultTimeout(STEP_MS);
  const page = await context.newPage();
  const address = pathToFileURL(path).href;
  const faults = [];
  page.on('console', (message) => {
    // Announcements of the browser's own plans begin like this.
    const isNews = /^\[(Deprecation|Intervention|Violation)\]/.test(message.text());
    if (['error', 'warning', 'assert'].includes(message.type()) && !isNews)
      faults.push(`console ${message.type()}: ${message.text()}`);
  });
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('request', (request) => {
    const url = request.url();
    const own = url.split('#')[0] === address || url.startsWith('blob:') || url.startsWith('data:');
    if (!own) faults.push(`request: ${url.slice(0, 200)}`);
  });
  await page.addInitScript(() => {
    window.policyViolations = [];
    document.addEventListener('securitypolicyviolation', (event) => {
      window.policyViolations.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`);
    });
  });
  await page.goto(address + hash);
  return { page, faults };
}

/** Opens everything that is folded up. */
export const unfold = (page) =>
  page.$$eval('details', (all) =>
    all.forEach((details) => {
      details.open = true;
    }),
  );

/** What is wrong on the page by now, and what it may not have done; closes it. */
export async function faultsOf({ page, faults }) {
  // Not there where scripts are off.
  const violations = (await page.evaluate(() => window.policyViolations)) || [];
  const pwned = await page.evaluate(() => window.__pwned);
  await page.context().close();
  return [
    ...faults,
    ...violations.map((each) => `policy: ${each}`),
    ...(pwned === undefined ? [] : [`script of a name ran: ${pwned}`]),
  ];
}

/** Parses CSV as RFC 4180 has it. */
export function parseCsv(text) {
  const rows = [[]];
  const field = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|$)/gy;
  while (field.lastIndex < text.length) {
    const found = field.exec(text);
    if (!found) throw new Error(`no CSV at ${field.lastIndex}: ${text.slice(field.lastIndex, field.lastIndex + 60)}`);
    rows[rows.length - 1].push(found[1] === undefined ? found[2] : found[1].replaceAll('""', '"'));
    if (found[3] === '\r\n') rows.push([]);
  }
  return rows.filter((row) => row.length);
}
