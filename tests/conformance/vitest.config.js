import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["suite.test.js"],
    setupFiles: ["fetch.js"],
    // Generous: the machine may be busy, and no test here asserts speed.
    testTimeout: 30_000,
    hookTimeout: 30_000,
  },
})
