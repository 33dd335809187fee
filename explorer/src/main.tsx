// Starts the page: theme, kept key, then the one component that is everything.
import { render } from "preact";
import "./style/base.css";
import "./style/shell.css";
import "./style/data.css";
import "./style/plot.css";
import "./style/model.css";
import { resume } from "./state/account";
import { applyTheme } from "./state/preferences";
import { App } from "./views/app";

applyTheme();
void resume();
render(<App />, document.getElementById("app")!);
