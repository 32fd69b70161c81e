"""Build from settings what the tools of scripts and batches need of us, without a store."""

from agent_core.services import Services
from gateway.media.pictures import StoredPictures
from gateway.wiring.network_tools import build_browsers, build_network_tools
from gateway.wiring.tools import build_media_files, build_model, moa_problem
from hermes_config.places import Home
from hermes_config.settings import Settings
from tools.builtin.moa import moa_tool


def build_services(settings: Settings) -> Services:
    """Build them; pictures are kept in the home, until the gateway tidies up."""
    home = Home.locate()
    model, browsers, files = build_model(settings, home, paced=False), build_browsers(settings), build_media_files(home)
    pictures = StoredPictures(db=None, files=files, max_pixels=settings.media.max_image_pixels)
    moa = moa_tool(moa_problem(settings))

    async def aclose() -> None:
        await browsers.aclose()
        await model.aclose()

    return Services(
        tools=build_network_tools(settings, pictures, browsers=browsers) | {moa.name: moa},
        helpers=model.helpers,
        load_media=files.load,
        end_task=browsers.close,
        aclose=aclose,
    )
