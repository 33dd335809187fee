// Starts the page: theme, kept key, then the one component that is everything.
import { render } from "preact";
import "./style/base.css";
import "./style/shell.css";
import "./style/data.css";
import "./style/plot.css";
import "./style/model.css";
import { hasKeptKey, resume } from "./state/account";
import { applyTheme } from "./state/preferences";
import { App, loadWorkspace } from "./views/app";

applyTheme();
if (hasKeptKey()) void loadWorkspace();
void resume();
render(<App />, document.getElementById("app")!);
