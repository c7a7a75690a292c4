// Node 20's own fetch fails on a redirect when the body is a byte array ("detached ArrayBuffer", in the
// undici 6 that it carries). The undici that later versions of Node carry replays it.
import { install } from "undici"

install()
