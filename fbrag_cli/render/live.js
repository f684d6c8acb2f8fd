// The live page.
