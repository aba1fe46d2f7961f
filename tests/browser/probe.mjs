/**
 * @file Whether this Chromium and this Playwright work together at all: a page with and without scripts, a file that a
 * click saves, a print. Fails with the reason; then the tests of pages cannot tell anything.
 */
import { launch } from './browser.mjs';

const browser = await launch();
console.log(browser.version());
for (const javaScriptEnabled of [true, false]) {
  const page = await (await browser.newContext({ javaScriptEnabled })).newPage();
  page.setDefaultTimeout(10_000);
  await page.setContent('<a download="a.txt" href="data:text/plain,a">a</a>');
  await page.evaluate(() => document.body.innerHTML);
  if (javaScriptEnabled) await Promise.all([page.waitForEvent('download'), page.locator('a').click()]);
  await page.pdf();
}
await browser.close();
